"""Attention as one kernel of ours: scores, softmax and sum of values, block by block."""
