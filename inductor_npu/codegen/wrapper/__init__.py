"""The generated module around the kernels: allocations, launches, operator calls, and their comments."""
