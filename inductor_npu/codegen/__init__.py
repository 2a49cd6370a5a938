"""Inductor's fused loops -> Triton source for NPUs, and the Python that launches it."""
