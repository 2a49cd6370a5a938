"""The module around kernels: allocations, launches, calls of operators, and the comments beside them."""
