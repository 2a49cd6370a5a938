"""Rewrites of a kernel's operations before planning: what suits the chip becomes what suits the host."""
