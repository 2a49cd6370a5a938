"""Limits of number formats at which kernels are written differently, whatever the chip."""

from __future__ import annotations

import torch

# Integers that are summed in 32 bits; sums wrap in their own bits, as in eager, before they are used.
SUMMED_IN_32_BITS = (torch.int8, torch.uint8, torch.int16, torch.uint16)

# float32 represents every integer of at most this magnitude exactly.
EXACT_IN_FLOAT32 = 1 << 24

# `device_functions.small_quotient` and `small_remainder` are exact for non-negative integers below this.
LARGEST_DIVIDED = 1 << 22

# The largest divisor of `device_functions.remainder_int64`, which computes int64 remainders in vector instructions.
LARGEST_DIVISOR_OF_INT64 = (1 << 19) - 1
