"""Measurements behind docs/benchmarks.md: `python -m benchmarks`, or `make bench`."""
