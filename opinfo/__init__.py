"""The sweep of PyTorch's operators: every sample of `torch.testing`'s OpInfo database, compiled; `python -m opinfo`.

`samples.py` says what a case is, `comparison.py` what counts as right, `running.py` runs one case, `tasks.py` many in a
process that may crash (tools/workers.py), `plan.py` in which order. Outcomes are lines of a file while a sweep runs
(`outcomes.py`); the result is a table for each device in `tables/`, one line for each operator and dtype (`table.py`),
kept in git.
"""
