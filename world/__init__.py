"""Other people's programs, compiled for `npu` and held against eager: `python -m world`.

`libraries.py` says which there are, `case.py` what a case is; `models/` and `own/` build them. `running.py` runs one
case on all its sides, `judging.py` says what is right, `peak.py` measures memory, `tasks.py` is one process of many
(tools/workers.py). Outcomes are lines of a file while a sweep runs (`outcomes.py`); `table.py` writes docs/world.md.
"""
