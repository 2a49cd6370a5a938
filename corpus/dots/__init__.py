"""Hand-written kernels with `tl.dot`: products with prologues and epilogues, attention.

`python -m corpus.dots` compares the embedded NPU's check of on-chip memory with Ascend's compiler, for many block sizes
of each.
"""
