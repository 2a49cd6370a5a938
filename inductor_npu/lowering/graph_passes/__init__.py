"""Rewrites of a graph for `npu`, after autograd and before the loops are made (docs/graph-passes.md).

`passes.py` has the one ordered list of them and runs it; each of the other files is one pass.
"""
