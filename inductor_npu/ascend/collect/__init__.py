"""Runs a program on the embedded NPU and collects its kernels: text, origin, grid and arguments."""
