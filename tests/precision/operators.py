"""Operators as people write them, compiled for the embedded NPU, and how far from their exact results they are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
import torch.nn.functional as F

from tests.simulator.triton_backend.mathlib_reference import inputs_f32, ulp_errors

Operator = Callable[..., torch.Tensor]

UNARY: dict[str, Operator] = {
    "exp": torch.exp,
    "exp2": torch.exp2,
    "expm1": torch.expm1,
    "log": torch.log,
    "log2": torch.log2,
    "log10": torch.log10,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "sin": torch.sin,
    "cos": torch.cos,
    "tan": torch.tan,
    "asin": torch.asin,
    "acos": torch.acos,
    "atan": torch.atan,
    "sinh": torch.sinh,
    "cosh": torch.cosh,
    "tanh": torch.tanh,
    "asinh": torch.asinh,
    "acosh": torch.acosh,
    "atanh": torch.atanh,
    "erf": torch.erf,
    "erfc": torch.erfc,
    "erfinv": torch.erfinv,
    "lgamma": torch.lgamma,
    "sigmoid": torch.sigmoid,
    "logsigmoid": F.logsigmoid,
    "softplus": F.softplus,
    "silu": F.silu,
    "gelu": F.gelu,
    "gelu (tanh)": lambda x: F.gelu(x, approximate="tanh"),
    "mish": F.mish,
    "elu": F.elu,
    "sinc": torch.sinc,
    "i0": torch.special.i0,
    "i1": torch.special.i1,
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "frac": torch.frac,
}
BINARY: dict[str, Operator] = {
    "div": torch.div,
    "pow": torch.pow,
    "atan2": torch.atan2,
    "hypot": torch.hypot,
    "fmod": torch.fmod,
    "remainder": torch.remainder,
    "floor_divide": torch.floor_divide,
    "logaddexp": torch.logaddexp,
    "xlogy": torch.xlogy,
}


# Units of the last place that an element may be off by.
BOUND = 2.0
# Forms of our own for what Ascend's compiler has no vector code for; the C library's are beyond this in none.
WIDER = {
    "tan": 3.5,
    "erfc": 3.0,
    "i0": 3.25,
}
# PyTorch's decompositions: what they lose (where they cancel, underflow, or have -0.0) eager loses as well.
AS_EAGER = ("log1p", "sigmoid", "logsigmoid", "silu", "gelu", "gelu (tanh)", "mish", "sinc", "i1", "logaddexp")
# Right but for what is said; tests leave that out.
EXCEPT = {
    "lgamma": "at most 2.5 for positive numbers; for negative ones near a zero, 8 units of the last place of 1",
    "fmod": "NaN for a denormal divisor whose quotient is infinite",
    "remainder": "NaN for a denormal divisor whose quotient is infinite",
    "floor_divide": "the floor of the rounded quotient, as in stock Inductor: 0 where that underflows",
}


def inputs(operands: int, step: int, count: int) -> list[np.ndarray]:
    """float32 of all sizes and signs, denormal, infinite and not a number included; for two operands in other orders,
    so that each of them meets any other.
    """
    values = inputs_f32(step, count)
    return [values] if operands == 1 else [np.random.default_rng(seed).permutation(values) for seed in (1, 2)]


def errors(operator: Operator, arguments: list[np.ndarray], device: str = "npu") -> np.ndarray:
    """Of each element, in units of the last place of PyTorch's result in float64 on the CPU; infinity where one is not
    finite, or of another sign, and the other is not. Compiled, but on device "cpu" in eager.
    """
    torch._dynamo.reset()
    tensors = [torch.from_numpy(argument) for argument in arguments]
    exact = operator(*(tensor.double() for tensor in tensors)).numpy()
    called = operator if device == "cpu" else torch.compile(operator, dynamic=False)
    got = called(*(tensor.to(device) for tensor in tensors)).cpu().numpy()
    with np.errstate(all="ignore"):
        found = ulp_errors(got, exact)
    # What rounds to no float32 but the largest or infinity is right as either.
    return np.where(np.abs(exact) > np.finfo(np.float32).max, np.where(np.isinf(got), 0.0, found), found)
