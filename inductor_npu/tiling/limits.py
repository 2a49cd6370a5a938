"""Limits of chip and number formats at which kernels are split or written differently. They are in elements unless a
comment names another unit.
"""

from __future__ import annotations

# Bytes of the shortest burst, and of a block of the Unified Buffer. Shorter rows are moved element by element.
BURST = 32

# A row of at least this length is worth a transfer of its own.
SHORTEST_ROW = 8

# float32 represents every integer of at most this magnitude exactly.
EXACT_IN_FLOAT32 = 1 << 24

# `device_functions.small_quotient` and `small_remainder` are exact for non-negative integers below this.
LARGEST_DIVIDED = 1 << 22

# The largest divisor of `device_functions.remainder_int64`, which computes int64 remainders in vector instructions.
LARGEST_DIVISOR_OF_INT64 = (1 << 19) - 1

# Elements of the narrowest type in one vector comparison of 256 bytes. Ascend's compiler compares the remainder of a
# tile element by element.
WHOLE_COMPARISON = 128

# Elements of 32 bits in one vector comparison.
WHOLE_COMPARISON_32 = 64
