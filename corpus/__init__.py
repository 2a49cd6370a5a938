"""The corpus: ordinary programs, and what Ascend's compiler makes of each of their kernels; `python -m corpus`.

`programs/` is what is compiled, `tables/` the result for each chip, one line a kernel, kept in git.
"""
