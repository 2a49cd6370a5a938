"""Programs that multiply matrices: every dtype and layout of operands, what follows a product, gradients."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
import torch.nn.functional as F

from corpus.programs.program import Program, case, family
from corpus.programs.tensors import Input, floats, integers

_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_SIZES = ((64, 64, 64), (7, 100, 33), (130, 300, 65), (1, 256, 512), (512, 256, 1), (16, 512, 256), (128, 1, 64))
_HALVES = ("float32", "float16")


def _sizes() -> Iterator[Program]:
    for name, dtype in _DTYPES.items():
        for rows, inner, columns in _SIZES:
            sizes = f"{rows} x {inner} x {columns}"
            yield case(
                f"{sizes} {name}", torch.mm, floats(rows, inner, dtype=dtype), floats(inner, columns, dtype=dtype)
            )


def _layouts() -> Iterator[Program]:
    for name, dtype in _DTYPES.items():
        a, b = floats(100, 60, dtype=dtype), floats(40, 100, dtype=dtype)
        yield case(f"left turned {name}", lambda a, b: a.t() @ b, a, floats(100, 40, dtype=dtype))
        yield case(f"right turned {name}", lambda a, b: a @ b.t(), floats(60, 100, dtype=dtype), b)
        yield case(f"both turned {name}", lambda a, b: a.t() @ b.t(), a, b)
        yield case(
            f"result turned {name}",
            lambda a, b: (a @ b).t().contiguous(),
            floats(60, 96, dtype=dtype),
            floats(96, 40, dtype=dtype),
        )
    yield case("steps", lambda a, b: a[::2, ::2] @ b[:, ::3], floats(40, 60), floats(30, 90))
    yield case("parts", lambda a, b: a[3:, 8:] @ b[8:, 2:-1], floats(43, 72), floats(72, 35))


def _batches() -> Iterator[Program]:
    for name, dtype in _DTYPES.items():
        yield case(f"batch {name}", torch.bmm, floats(3, 17, 40, dtype=dtype), floats(3, 40, 24, dtype=dtype))
        yield case(f"one for all {name}", torch.matmul, floats(3, 17, 40, dtype=dtype), floats(40, 24, dtype=dtype))
        heads = floats(2, 17, 4, 32, dtype=dtype)
        yield case(f"heads {name}", lambda q, k: q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1), heads, heads)
        yield case(
            f"scores {name}", lambda q, k: torch.softmax(q @ k.mT * 0.125, -1), *[floats(2, 4, 33, 64, dtype=dtype)] * 2
        )
    yield case(
        "beta", lambda c, a, b: torch.addmm(c, a, b, beta=0.5, alpha=2), floats(40, 48), floats(40, 64), floats(64, 48)
    )
    yield case("batch and sum", torch.baddbmm, floats(3, 20, 25), floats(3, 20, 30), floats(3, 30, 25))


def _both(y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return y, y.relu()


# From the product of x by w, the bias, and a tensor like the result.
_AFTER: dict[str, Callable[..., object]] = {
    "bias": lambda y, b, z: y + b,
    "relu": lambda y, b, z: F.relu(y + b),
    "leaky relu": lambda y, b, z: F.leaky_relu(y + b),
    "gelu": lambda y, b, z: F.gelu(y + b),
    "tanh gelu": lambda y, b, z: F.gelu(y + b, approximate="tanh"),
    "silu": lambda y, b, z: F.silu(y),
    "sigmoid": lambda y, b, z: torch.sigmoid(y + b),
    "softcap": lambda y, b, z: 30 * torch.tanh(y / 30),
    "residual": lambda y, b, z: z + y,
    "bias and residual": lambda y, b, z: z + (y + b),
    "scale": lambda y, b, z: y * 0.125,
    "column scale": lambda y, b, z: y * b,
    "row scale": lambda y, b, z: y * z[:, :1],
    "gate": lambda y, b, z: F.silu(z) * (y + b),
    "clamp": lambda y, b, z: (y + b).clamp(-1, 1),
    "cast": lambda y, b, z: (y + b).to(torch.bfloat16),
    "two results": lambda y, b, z: _both(y + b),
    "choice": lambda y, b, z: torch.where(z > 0, y, -1.0),
    "dropout": lambda y, b, z: F.dropout(y + b, 0.1),
    "softmax": lambda y, b, z: torch.softmax(y + b, -1),
    "layer norm": lambda y, b, z: F.layer_norm(z + y, (y.shape[-1],), b),
}


def _after() -> Iterator[Program]:
    for name in _HALVES:
        operands = [floats(*shape, dtype=_DTYPES[name]) for shape in ((66, 100), (72, 100), (72,), (66, 72))]
        for after, function in _AFTER.items():
            yield case(f"{after} {name}", _followed_by(function), *operands)


def _followed_by(function: Callable[..., object]) -> Callable[..., object]:
    return lambda x, w, b, z: function(x @ w.t(), b, z)


def _mlp(x: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return x + F.gelu(x @ up) @ down


def _gated(x: torch.Tensor, gate: torch.Tensor, up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    return (F.silu(x @ gate) * (x @ up)) @ down


def _parts_of_networks() -> Iterator[Program]:
    for name in _HALVES:
        make = _floats_of(name)
        for backward in (False, True):
            more = " backward" if backward else ""
            linear = (make(48, 96), make(64, 96), make(64))
            yield case(f"linear {name}{more}", F.linear, *linear, backward=backward)
            yield case(f"mlp {name}{more}", _mlp, make(40, 64), make(64, 128), make(128, 64), backward=backward)
            weights = (make(64, 96), make(64, 96), make(96, 64))
            yield case(f"gated mlp {name}{more}", _gated, make(40, 64), *weights, backward=backward)
    yield case("chain", lambda a, b, c: torch.relu(a @ b) @ c, floats(33, 64), floats(64, 48), floats(48, 80))


def _floats_of(name: str) -> Callable[..., Input]:
    return lambda *shape: floats(*shape, dtype=_DTYPES[name])


def _bytes(*shape: int) -> Input:
    return lambda: (integers(256, *shape)() - 128).to(torch.int8)


def _integers() -> Iterator[Program]:
    for rows, inner, columns in ((33, 64, 48), (16, 256, 128), (130, 96, 40)):
        operands = (_bytes(rows, inner), _bytes(inner, columns))
        yield case(f"int8 {rows} x {inner} x {columns}", torch._int_mm, *operands)
        scaled = (*operands, floats(rows, 1), floats(columns))
        yield case(f"int8 scaled {rows} x {inner} x {columns}", lambda a, b, r, c: torch._int_mm(a, b) * r * c, *scaled)


def _long_sums() -> Iterator[Program]:
    for name in _HALVES:
        make = _floats_of(name)
        yield case(f"long sum {name}", torch.mm, make(16, 65536), make(65536, 16))
        yield case(
            f"long sum bias {name}",
            lambda c, x, y: F.relu(torch.addmm(c, x.t(), y)),
            make(64),
            make(50_000, 48),
            make(50_000, 64),
        )
    yield case("long sum int8", lambda a, b: torch._int_mm(a, b.t()) * 0.5, _bytes(33, 40_000), _bytes(48, 40_000))


def _of_float32(operator: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    return lambda *operands: operator(*operands, out_dtype=torch.float32)


def _result_dtypes() -> Iterator[Program]:
    """Without a partner in eager: PyTorch has them for CUDA and XPU only."""
    for name in ("float16", "bfloat16"):
        make = _floats_of(name)
        yield case(f"out_dtype {name}", _of_float32(torch.mm), make(33, 100), make(100, 48))
        yield case(f"out_dtype bias {name}", _of_float32(torch.addmm), floats(48), make(33, 100), make(100, 48))


def _ends(*ends: int) -> Input:
    return lambda: torch.tensor(ends, dtype=torch.int32)


def _grouped(left: torch.Tensor, right: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
    return F.grouped_mm(left, right, offs=ends)


def _groups() -> Iterator[Program]:
    make, ends = _floats_of("bfloat16"), _ends(0, 90, 90, 400, 650, 700)
    rows = (make(700, 200), make(6, 200, 304), ends)
    yield case("groups", _grouped, *rows)
    yield case("groups backward", _grouped, *rows, backward=True)
    yield case("groups turned", lambda x, w, ends: _grouped(x, w.mT, ends), make(700, 200), make(6, 304, 200), ends)
    yield case("groups of columns", lambda w, x, ends: _grouped(w, x.t(), ends), make(6, 64, 200), make(700, 200), ends)
    yield case("groups dynamic", _grouped, *rows, dynamic=True)


def _weights_of_few_rows() -> Iterator[Program]:
    for name in ("float16", "bfloat16"):
        x, w, scale = _floats_of(name)(8, 520), _bytes(520, 328), _floats_of(name)(328)
        yield case(f"int8 weights {name}", lambda x, w: x @ w.to(x.dtype), x, w)
        yield case(f"int8 weights scaled {name}", lambda x, w, s: (x @ w.to(x.dtype)) * s, x, w, scale)
        turned = _bytes(328, 520)
        yield case(f"int8 weights turned {name}", lambda x, w, s: F.linear(x, w.to(x.dtype)) * s, x, turned, scale)


def _dynamic() -> Iterator[Program]:
    for name in _HALVES:
        make = _floats_of(name)
        yield case(f"dynamic {name}", torch.mm, make(50, 70), make(70, 90), dynamic=True)
        yield case(
            f"dynamic linear {name}",
            lambda x, w, b: F.relu(F.linear(x, w, b)),
            make(50, 70),
            make(90, 70),
            make(90),
            dynamic=True,
        )
        yield case(f"dynamic batch {name}", torch.bmm, make(3, 20, 30), make(3, 30, 40), dynamic=True)


PROGRAMS = family(
    "product",
    [
        *_sizes(),
        *_layouts(),
        *_batches(),
        *_after(),
        *_parts_of_networks(),
        *_integers(),
        *_long_sums(),
        *_result_dtypes(),
        *_groups(),
        *_weights_of_few_rows(),
        *_dynamic(),
    ],
)
