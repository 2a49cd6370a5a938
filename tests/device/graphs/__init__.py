"""Captured graphs of the embedded NPU."""
