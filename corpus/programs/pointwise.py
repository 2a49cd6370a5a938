"""Elementwise programs: activations, broadcasts, dtypes, integer and boolean arithmetic, sizes that divide nothing."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from corpus.programs.program import case, family
from corpus.programs.tensors import booleans, floats, integers, positive

HALF = torch.float16
BRAIN = torch.bfloat16


def _adamw(
    parameter: torch.Tensor, gradient: torch.Tensor, mean: torch.Tensor, square: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    mean = 0.9 * mean + 0.1 * gradient
    square = 0.999 * square + 0.001 * gradient * gradient
    step = mean / (square.sqrt() + 1e-8)
    return parameter * (1 - 1e-2 * 1e-3) - 1e-3 * step, mean, square


def _momentum_in_place(parameter: torch.Tensor, gradient: torch.Tensor, velocity: torch.Tensor) -> torch.Tensor:
    velocity.mul_(0.9).add_(gradient)
    return parameter.sub_(velocity, alpha=0.1)


def _quantise(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return torch.clamp(torch.round(x / scale), -128, 127).to(torch.int8)


def _rank_five(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.relu(x + y) * 2


ACTIVATIONS = [
    case("relu", lambda x: F.relu(x) * 2, floats(128, 1024), backward=True),
    case("gelu erf", F.gelu, floats(64, 3072), backward=True),
    case("gelu tanh", lambda x: F.gelu(x, approximate="tanh"), floats(64, 3072), backward=True),
    case("silu", F.silu, floats(64, 1024), backward=True),
    case("mish", F.mish, floats(64, 1024), backward=True),
    case("softplus", F.softplus, floats(64, 1024), backward=True),
    case("elu", F.elu, floats(64, 1024), backward=True),
    case("leaky relu", F.leaky_relu, floats(64, 1024), backward=True),
    case("hardswish", F.hardswish, floats(64, 1024), backward=True),
    case("log sigmoid", F.logsigmoid, floats(64, 1024), backward=True),
    case("prelu", F.prelu, floats(8, 64, 14, 14), floats(64), backward=True),
    case("glu", lambda x: F.glu(x, -1), floats(64, 2048), backward=True),
    case("swiglu", lambda a, b: F.silu(a) * b, floats(64, 2752), floats(64, 2752), backward=True),
    case("geglu", lambda a, b: F.gelu(a) * b, floats(64, 2752), floats(64, 2752), backward=True),
    case("relu squared", lambda x: F.relu(x).square(), floats(64, 1024), backward=True),
]

MATHEMATICS = [
    case("sin cos", lambda x: torch.sin(x) + torch.cos(x), floats(64, 1000)),
    case("tan", torch.tan, floats(64, 1000)),
    case("exp log", lambda x: torch.exp(-x) + torch.log(x), positive(64, 1000)),
    case("exp2 log2", lambda x: torch.exp2(x) + torch.log2(x), positive(64, 1000)),
    case("expm1 log1p", lambda x: torch.expm1(x) + torch.log1p(x), positive(64, 1000)),
    case("tanh sigmoid", lambda x: torch.tanh(x) * torch.sigmoid(x), floats(64, 1000)),
    case("rsqrt reciprocal", lambda x: torch.rsqrt(x) + torch.reciprocal(x), positive(64, 1000)),
    case("pow scalar", lambda x: x**3 + x**0.5, positive(64, 1000)),
    case("pow tensor", torch.pow, positive(64, 1000), floats(64, 1000)),
    case("erf erfc", lambda x: torch.erf(x) + torch.erfc(x), floats(64, 1000)),
    case("erfinv", lambda x: torch.erfinv(x - 0.5), positive(64, 1000)),
    case("atan2", torch.atan2, floats(64, 1000), floats(64, 1000)),
    case("asin acos atan", lambda x: torch.asin(x) + torch.acos(x) + torch.atan(x), lambda: torch.rand(64, 1000)),
    case("sinh cosh", lambda x: torch.sinh(x) + torch.cosh(x), floats(64, 1000)),
    case("asinh acosh atanh", lambda x: torch.asinh(x) + torch.acosh(x + 1) + torch.atanh(x / 2), positive(64, 1000)),
    case("floor ceil round trunc", lambda x: x.floor() + x.ceil() * x.round() - x.trunc(), floats(64, 1000)),
    case("remainder", lambda x, y: torch.remainder(x, y), floats(64, 1000), positive(64, 1000)),
    case("fmod", lambda x, y: torch.fmod(x, y), floats(64, 1000), positive(64, 1000)),
    case("sign copysign", lambda x, y: torch.sign(x) + torch.copysign(x, y), floats(64, 1000), floats(64, 1000)),
    case("lgamma digamma", lambda x: torch.lgamma(x) + torch.digamma(x), positive(64, 1000)),
    case("bessel", torch.special.bessel_j0, floats(64, 1000)),
    case("hypot", torch.hypot, floats(64, 1000), floats(64, 1000)),
    case("maximum minimum", lambda a, b: torch.maximum(a, b) - torch.minimum(a, b), floats(64, 1000), floats(64, 1000)),
    case("clamp", lambda x: x.clamp(-0.5, 0.5), floats(64, 1000), backward=True),
    case("lerp", lambda a, b: torch.lerp(a, b, 0.3), floats(64, 1000), floats(64, 1000)),
    case("nan to num", torch.nan_to_num, floats(64, 1000)),
    case("isnan isinf", lambda x: torch.isnan(x) | torch.isinf(x), floats(64, 1000)),
    case(
        "addcmul addcdiv",
        lambda a, b, c: torch.addcmul(a, b, c) + torch.addcdiv(a, b, c),
        floats(64, 1000),
        floats(64, 1000),
        positive(64, 1000),
    ),
]

BROADCASTS = [
    case("bias row", lambda x, b: F.relu(x + b), floats(64, 768), floats(768), backward=True),
    case("scale column", lambda x, s: x * s, floats(64, 768), floats(64, 1), backward=True),
    case("outer sum", lambda a, b: a[:, None] + b[None, :], floats(777), floats(513)),
    case(
        "channel bias",
        lambda x, b: F.relu(x + b[None, :, None, None]),
        floats(8, 64, 14, 14),
        floats(64),
        backward=True,
    ),
    case(
        "channel affine odd",
        lambda x, w, b: x * w[:, None, None] + b[:, None, None],
        floats(4, 33, 7, 7),
        floats(33),
        floats(33),
    ),
    case("middle axis", lambda x, y: x + y, floats(8, 16, 32), floats(8, 1, 32), backward=True),
    case("both ends", lambda x, y: x * y, floats(8, 16, 32), floats(1, 16, 1), backward=True),
    case("relative bias", lambda s, b: s * 0.125 + b[None], floats(4, 8, 64, 64), floats(8, 64, 64)),
    case("scalar tensor", lambda x, s: x * s, floats(64, 768), lambda: torch.tensor(2.0), backward=True),
    case("expand write", lambda x: x.expand(16, 4, 128).contiguous(), floats(4, 128)),
    case("repeat interleave rows", lambda x: x.repeat_interleave(4, dim=1), floats(2, 8, 64, 32)),
]

DTYPES = [
    case(
        "half chain",
        lambda a, b: F.silu(a) * b,
        floats(64, 1024, dtype=HALF),
        floats(64, 1024, dtype=HALF),
        backward=True,
    ),
    case(
        "brain chain",
        lambda a, b: F.silu(a) * b,
        floats(64, 1024, dtype=BRAIN),
        floats(64, 1024, dtype=BRAIN),
        backward=True,
    ),
    case("float to half", lambda x: (x * 2).to(HALF), floats(64, 1000)),
    case("half to float", lambda x: x.float() * 2, floats(64, 1000, dtype=HALF)),
    case("float to brain", lambda x: (x * 2).to(BRAIN), floats(64, 1000)),
    case("float to int", lambda x: (x * 100).to(torch.int32), floats(64, 1000)),
    case("int to float", lambda x: x.float() / 255, integers(255, 64, 1000, dtype=torch.uint8)),
    case("long to float", lambda x: x.float() * 0.5, integers(1000, 64, 1000)),
    case("bool to float", lambda x: x.float() * 0.5, booleans(64, 1000)),
    case("quantise int8", _quantise, floats(64, 1024), positive(64, 1)),
    case("dequantise int8", lambda q, s: q.float() * s, integers(127, 64, 1024, dtype=torch.int8), positive(64, 1)),
    case("double", lambda x: torch.exp(x) + 1, floats(64, 100, dtype=torch.float64)),
]

INTEGERS = [
    case(
        "int32 add mul",
        lambda a, b: a * b + 3,
        integers(99, 64, 1000, dtype=torch.int32),
        integers(99, 64, 1000, dtype=torch.int32),
    ),
    case("int64 add mul", lambda a, b: a * b + 3, integers(99, 64, 1000), integers(99, 64, 1000)),
    case("int32 divide", lambda a: a // 7, integers(9999, 64, 1000, dtype=torch.int32)),
    case("int32 remainder", lambda a: a % 7, integers(9999, 64, 1000, dtype=torch.int32)),
    case("int64 divide", lambda a, b: a // (b + 1), integers(9999, 64, 1000), integers(9, 64, 1000)),
    case("int64 remainder", lambda a: a % 7, integers(9999, 64, 1000)),
    case(
        "int32 compare",
        lambda a, b: torch.where(a < b, a, b),
        integers(99, 64, 1000, dtype=torch.int32),
        integers(99, 64, 1000, dtype=torch.int32),
    ),
    case("int64 compare", lambda a: (a > 5) & (a != 7), integers(99, 64, 1000)),
    case("shift and mask", lambda a: ((a >> 3) & 7) | (a << 2), integers(9999, 64, 1000, dtype=torch.int32)),
    case(
        "int8 add",
        lambda a, b: a + b,
        integers(60, 64, 1000, dtype=torch.int8),
        integers(60, 64, 1000, dtype=torch.int8),
    ),
    case(
        "int16 arithmetic",
        lambda a, b: a * 3 - b,
        integers(99, 64, 1000, dtype=torch.int16),
        integers(99, 64, 1000, dtype=torch.int16),
    ),
    case("bool logic", lambda a, b: (a & ~b) | (a ^ b), booleans(64, 1000), booleans(64, 1000)),
    case(
        "where bool",
        lambda c, a, b: torch.where(c, a, b),
        booleans(64, 1000),
        floats(64, 1000),
        floats(64, 1000),
        backward=True,
    ),
    case("masked fill", lambda x, m: x.masked_fill(m, -1.0), floats(64, 1000), booleans(64, 1000), backward=True),
    case("compare chain", lambda x: ((x > 0) & (x < 1)).float() * x, floats(64, 1000)),
]

SIZES = [
    case("one element", lambda x: x * 2 + 1, floats(1)),
    case("scalar", lambda x: x * 2 + 1, lambda: torch.tensor(2.0)),
    case("odd vector", lambda x: x * 2 + 1, floats(1001)),
    case("prime matrix", lambda x, y: x * y + 1, floats(127, 331), floats(127, 331)),
    case("long vector", lambda x: torch.relu(x) + 1, floats(1 << 20)),
    case("narrow rows", lambda x, b: x * 2 + b, floats(4096, 3), floats(3)),
    case("rank five", _rank_five, floats(3, 4, 5, 6, 7), floats(3, 1, 5, 1, 7)),
    case("strided input", lambda x: x[:, ::2] * 2, floats(64, 1000)),
    case("sliced input", lambda x: x[3:60, 5:900] * 2, floats(64, 1000)),
    case("transposed input", lambda x: x.t() * 2, floats(64, 1000)),
    case("dynamic vector", lambda x, y: torch.exp(x) * y, floats(1001), floats(1001), dynamic=True),
    case("dynamic matrix", lambda x, b: F.gelu(x + b), floats(37, 769), floats(769), dynamic=True),
    case("dynamic channel", lambda x, b: x + b[:, None, None], floats(3, 5, 17, 19), floats(5), dynamic=True),
]

TRAINING = [
    case("adamw", _adamw, floats(512, 512), floats(512, 512), floats(512, 512), positive(512, 512)),
    case("momentum in place", _momentum_in_place, floats(512, 512), floats(512, 512), floats(512, 512)),
    case("dropout", lambda x: F.dropout(x, 0.1), floats(64, 1024), backward=True),
    case("random uniform", lambda x: torch.rand_like(x) + x, floats(64, 1024)),
    case("random normal", lambda x: torch.randn_like(x) + x, floats(64, 1024)),
    case("random integers", lambda x: torch.randint_like(x, 10) + x, floats(64, 1024)),
    case("bernoulli", lambda x: torch.bernoulli(torch.sigmoid(x)), floats(64, 1024)),
    case("exponential", lambda x: torch.empty_like(x).exponential_() + x, floats(64, 1024)),
]

PROGRAMS = [
    *family("activation", ACTIVATIONS),
    *family("mathematics", MATHEMATICS),
    *family("broadcast", BROADCASTS),
    *family("dtype", DTYPES),
    *family("integer", INTEGERS),
    *family("size", SIZES),
    *family("training", TRAINING),
]
