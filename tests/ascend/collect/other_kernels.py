"""Helper functions of a user's other module, under names that the test's own kernels use too."""

import triton
import triton.language as tl

SCALE = tl.constexpr(5)


@triton.jit
def helper(x):
    return x * SCALE


@triton.jit
def through_helper(x):
    return helper(x) + 1
