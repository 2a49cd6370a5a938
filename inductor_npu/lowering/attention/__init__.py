"""Lowers operators of attention on `npu` to kernels of ours (codegen/attention)."""
