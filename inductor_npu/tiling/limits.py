"""Sizes below or above which kernels are cut or written differently; in elements where a comment says no other unit."""

from __future__ import annotations

# Bytes of the shortest burst, and of a block of the Unified Buffer: shorter rows are moved element by element.
BURST = 32

# A row at least this long is worth a transfer of its own.
SHORTEST_ROW = 8

# Whole numbers up to this, and below, are all exact in float32.
EXACT_IN_FLOAT32 = 1 << 24

# Whole numbers below this are divided exactly by `device_functions.small_quotient` and `small_remainder`.
LARGEST_DIVIDED = 1 << 22

# int64 has a remainder in vector instructions for divisors up to this: `device_functions.remainder_int64`.
LARGEST_DIVISOR_OF_INT64 = (1 << 19) - 1

# Ascend's compiler compares 256 bytes at a time, 128 elements of the narrowest type, and what is left one by one.
WHOLE_COMPARISON = 128

# The same of numbers of 32 bits; and how many single comparisons cost no more than reading an argument.
WHOLE_COMPARISON_32 = 64
