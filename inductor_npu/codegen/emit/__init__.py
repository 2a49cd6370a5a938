"""A kernel's plan -> the source of a Triton kernel."""
