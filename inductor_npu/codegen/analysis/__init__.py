"""Inductor's loops -> a kernel's plan: axes, accesses, subdomains, tiles. Writes no text."""
