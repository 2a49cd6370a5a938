"""Annotations of generated modules: the origin of each kernel, and the bytes that it moves."""
