"""Lowers convolutions on `npu` to loops: products on the cube cores, or sums on the vector cores."""
