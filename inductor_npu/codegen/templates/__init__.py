"""Kernels that are not made of Inductor's loops: what each kind of them has in common."""
