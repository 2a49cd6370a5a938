"""Small programs of every family of operators for which Inductor generates code on GPUs, and of their relatives.

The same programs tell on any device what Inductor leaves to eager: `python -m tests.programs.operator_families cuda`
writes `left_to_eager_on_cuda.json` on a machine with a CUDA device.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch.utils import _pytree as pytree

ON_CUDA = Path(__file__).with_name("left_to_eager_on_cuda.json")
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
WIDE = (torch.float64, torch.int64)
_SEEDS = "aten.randint"


@dataclass(frozen=True)
class Program:
    """`function` of the tensors that `inputs` makes on the CPU. `random`: only shape, dtype and mean are comparable."""

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], tuple[Any, ...]]
    backward: bool = False
    random: bool = False
    slow: bool = False


PROGRAMS: dict[str, Program] = {}


def _program(
    name: str, *inputs: Callable[[], Any], backward: bool = False, random: bool = False, slow: bool = False
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function under `name`; each of `inputs` makes one argument."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        assert name not in PROGRAMS
        PROGRAMS[name] = Program(name, function, lambda: tuple(make() for make in inputs), backward, random, slow)
        return function

    return register


def _floats(*shape: int, dtype: torch.dtype = torch.float32, gradient: bool = False) -> Callable[[], torch.Tensor]:
    return lambda: torch.randn(shape).to(dtype).requires_grad_(gradient)


def _whole(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], torch.Tensor]:
    """Whole numbers from -3 to 3: their sums are exact in every dtype, in any order."""
    return lambda: torch.randint(-3, 4, shape).to(dtype)


def _distinct(*shape: int, dtype: torch.dtype = torch.float32) -> Callable[[], torch.Tensor]:
    """Numbers that no two places have in common: what is sorted has one order only."""
    return lambda: torch.randperm(torch.Size(shape).numel()).reshape(shape).to(dtype)


def _places(size: int, *shape: int) -> Callable[[], torch.Tensor]:
    """Indices from 0 to size - 1, with duplicates wherever there are more of them than places."""
    return lambda: torch.randint(0, size, shape)


def _permutation(size: int) -> Callable[[], torch.Tensor]:
    return lambda: torch.randperm(size)


# ---- indexing


@_program("gather", _floats(20, 30), _places(20, 20, 30), _places(30, 20, 7))
def _(x: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> Any:
    wide = [x.to(dtype).gather(1, columns) for dtype in (*FLOATS, torch.int64)]
    return x.gather(0, rows), wide, torch.take_along_dim(x, columns, 1), x.take(columns)


@_program("gather backward", _floats(20, 30, gradient=True), _places(30, 20, 40), backward=True)
def _(x: torch.Tensor, columns: torch.Tensor) -> Any:
    return x.gather(1, columns) * 2


@_program("index", _floats(12, 20, 30), _places(12, 9), _places(20, 9), _places(30, 9), slow=True)
def _(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor, k: torch.Tensor) -> Any:
    return x[i], x[:, j], x[i, j], x[i, :, k], x[i, j, k], x[i[:, None], j[None, :]], x.long()[:, :, k - 30]


@_program("index backward", _floats(12, 20, gradient=True), _places(12, 40), backward=True)
def _(x: torch.Tensor, rows: torch.Tensor) -> Any:
    return x[rows] * 3


@_program("index by a mask", _floats(12, 20))
def _(x: torch.Tensor) -> Any:
    return x[x > 0]


@_program("index_select", _floats(12, 20, 30), _places(20, 9))
def _(x: torch.Tensor, places: torch.Tensor) -> Any:
    return x.index_select(1, places), x.double().index_select(2, places), x.long().index_select(1, places)


@_program("scatter", _floats(20, 500), _floats(20, 500), _permutation(20), _permutation(500))
def _(x: torch.Tensor, source: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> Any:
    down, along = rows[:, None].expand(20, 500), columns.expand(20, 500)
    others = [
        x.to(dtype).scatter(dim, index, source.to(dtype))
        for dtype in (torch.bfloat16, *WIDE)
        for dim, index in enumerate([down, along])
    ]
    return x.scatter(0, down, source), x.scatter(1, along[:, :5], 7.0), others


@_program("scatter_add", _whole(500, 30), _whole(900, 30), _places(500, 900, 30))
def _(x: torch.Tensor, source: torch.Tensor, places: torch.Tensor) -> Any:
    dtypes = (*FLOATS, torch.int32)
    long = [x.to(dtype).scatter_add(0, places, source.to(dtype)) for dtype in dtypes]
    return long, [x[:20].to(dtype).scatter_add(0, places[:90] % 20, source[:90].to(dtype)) for dtype in dtypes]


@_program("scatter_add of int64", _whole(20, 500, dtype=torch.int64), _places(500, 20, 90))
def _(x: torch.Tensor, places: torch.Tensor) -> Any:
    return x.scatter_add(1, places, places), x[:, :90].scatter_add(0, places % 20, places)


@_program("scatter_reduce sum", _whole(20, 30), _whole(20, 90), _places(30, 20, 90))
def _(x: torch.Tensor, source: torch.Tensor, places: torch.Tensor) -> Any:
    return x.scatter_reduce(1, places, source, "sum"), x.scatter_reduce(1, places, source, "sum", include_self=False)


def _scatter_reduce(how: str) -> None:
    @_program(f"scatter_reduce {how}", _whole(20, 30), _whole(20, 60), _places(30, 20, 60))
    def _(x: torch.Tensor, source: torch.Tensor, places: torch.Tensor) -> Any:
        return x.scatter_reduce(1, places, source, how), x.scatter_reduce(1, places, source, how, include_self=False)


for _how in ("prod", "mean", "amax", "amin"):
    _scatter_reduce(_how)


@_program("index_put", _floats(20, 30), _floats(9, 30), _permutation(20), _permutation(30))
def _(x: torch.Tensor, values: torch.Tensor, rows: torch.Tensor, columns: torch.Tensor) -> Any:
    narrow, wide = x.bfloat16().index_put((rows[:9],), values.bfloat16()), x.long().index_put((rows,), columns[0])
    return x.index_put((rows[:9],), values), x.index_put((rows, columns[:20]), values[0, :20]), narrow, wide


@_program("index_put accumulate", _whole(20, 30), _whole(90, 30), _places(20, 90))
def _(x: torch.Tensor, values: torch.Tensor, rows: torch.Tensor) -> Any:
    dtypes = (*FLOATS, torch.int32)
    return [x.to(dtype).index_put((rows,), values.to(dtype), accumulate=True) for dtype in dtypes]


@_program("index_put accumulate of int64", _whole(20, 30, dtype=torch.int64), _places(20, 90))
def _(x: torch.Tensor, rows: torch.Tensor) -> Any:
    return x.index_put((rows,), rows[:, None], accumulate=True)


@_program("index_put by a mask", _floats(20, 30))
def _(x: torch.Tensor) -> Any:
    return x.index_put((x > 0,), x.new_tensor(2.0))


@_program("index_add, index_copy, index_fill", _whole(20, 30), _whole(20, 9), _permutation(20))
def _(x: torch.Tensor, source: torch.Tensor, places: torch.Tensor) -> Any:
    return x.index_add(1, places[:9], source), x.index_copy(1, places[:9], source), x.index_fill(0, places[:4], 3)


@_program("bucketize, searchsorted", _floats(20, 30), _floats(17))
def _(x: torch.Tensor, borders: torch.Tensor) -> Any:
    borders = borders.cumsum(0).abs().cumsum(0)
    rows = borders.expand(20, 17) * 2
    found = [torch.bucketize(x.to(dtype), borders.to(dtype)) for dtype in WIDE]
    return (
        torch.bucketize(x, borders, right=True, out_int32=True),
        torch.searchsorted(borders, x),
        torch.searchsorted(rows.contiguous(), x, right=True),
        found,
    )


@_program("masked_scatter", _floats(20, 30), _floats(600))
def _(x: torch.Tensor, source: torch.Tensor) -> Any:
    return x.masked_scatter(x > 0, source), x.masked_fill(x < 0, 2.0)


# ---- along a row


@_program("cumsum, cumprod", _whole(20, 300))
def _(x: torch.Tensor) -> Any:
    sums = [x.to(dtype).cumsum(1) for dtype in (torch.float32, torch.float64, torch.int64, torch.bool)]
    return sums, x.cumsum(0), (1 + x / 100).cumprod(1), x.long().cumprod(0)


@_program("logcumsumexp", _floats(20, 60))
def _(x: torch.Tensor) -> Any:
    return x.logcumsumexp(1), x.double().logcumsumexp(0)


@_program("cummax, cummin", _distinct(20, 60))
def _(x: torch.Tensor) -> Any:
    return x.cummax(1), x.cummin(0), x.long().cummax(0), x.double().cummin(1)


@_program("cummax of a row of 100,000", _distinct(1, 100_000))
def _(x: torch.Tensor) -> Any:
    return x.cummax(1)


@_program("sort, argsort", _distinct(20, 60))
def _(x: torch.Tensor) -> Any:
    narrow = (x // 8).half().sort(stable=True, dim=1)
    return x.sort(0, descending=True), x.argsort(1), x.long().sort(1), narrow


@_program("sort of rows of 1000", _distinct(4, 1000))
def _(x: torch.Tensor) -> Any:
    return x.sort(1)


@_program("topk", _distinct(20, 300))
def _(x: torch.Tensor) -> Any:
    return x.topk(5), x.topk(3, dim=0, largest=False)


@_program("kthvalue, median, mode", _distinct(20, 60))
def _(x: torch.Tensor) -> Any:
    return x.kthvalue(7), x.median(1), x.median(), (x % 2).mode(1).values


@_program("argmax, argmin", _floats(20, 300))
def _(x: torch.Tensor) -> Any:
    others = [(x * 8).to(dtype).argmax(1) for dtype in (torch.bfloat16, *WIDE)]
    return x.argmax(), x.argmax(1), x.argmin(0), x.max(1), x.min(0, keepdim=True), others


# ---- embeddings, pooling, resampling, padding


@_program("embedding", _floats(50, 16, gradient=True), _places(50, 8, 30), backward=True)
def _(weight: torch.Tensor, tokens: torch.Tensor) -> Any:
    return F.embedding(tokens, weight), F.embedding(tokens, weight, padding_idx=3)


@_program("embedding of bfloat16", _floats(50, 16, dtype=torch.bfloat16, gradient=True), _places(50, 60), backward=True)
def _(weight: torch.Tensor, tokens: torch.Tensor) -> Any:
    return F.embedding(tokens, weight)


@_program("embedding by frequency", _floats(50, 16, gradient=True), _places(50, 60), backward=True)
def _(weight: torch.Tensor, tokens: torch.Tensor) -> Any:
    return F.embedding(tokens, weight, scale_grad_by_freq=True)


@_program("embedding_bag", _floats(50, 16), _places(50, 8, 6))
def _(weight: torch.Tensor, tokens: torch.Tensor) -> Any:
    return F.embedding_bag(tokens, weight, mode="sum")


@_program("max_pool", _floats(2, 3, 20, 20, gradient=True), backward=True, slow=True)
def _(x: torch.Tensor) -> Any:
    values, places = F.max_pool2d(x, 3, 2, 1, return_indices=True)
    return values, places


def _upsample(mode: str) -> None:
    @_program(f"upsample {mode}", _floats(2, 3, 8, 8, gradient=True), backward=True, slow=mode == "bicubic")
    def _(x: torch.Tensor) -> Any:
        return F.interpolate(x, size=(16, 11), mode=mode)


for _mode in ("nearest", "bilinear", "bicubic"):
    _upsample(_mode)


@_program("upsample with antialias", _floats(2, 3, 8, 8))
def _(x: torch.Tensor) -> Any:
    return F.interpolate(x, size=(5, 5), mode="bilinear", antialias=True)


@_program("pad", _floats(6, 8, gradient=True), backward=True, slow=True)
def _(x: torch.Tensor) -> Any:
    modes = ("reflect", "replicate", "circular")
    return F.pad(x, (1, 2, 3, 0), value=0.5), F.pad(x, (-1, 2)), [F.pad(x, (2, 1), mode=mode) for mode in modes]


@_program("roll, flip", _floats(12, 30, gradient=True), backward=True)
def _(x: torch.Tensor) -> Any:
    return x.roll(7), x.roll((3, -2), (0, 1)), x.flip(0), x.flip(0, 1), x.rot90(), x.fliplr()


# ---- random numbers


@_program("dropout", lambda: torch.ones(100, 100, requires_grad=True), backward=True, random=True)
def _(x: torch.Tensor) -> Any:
    return F.dropout(x, 0.3), F.dropout2d(x.reshape(10, 100, 2, 5), 0.3)


@_program("random functions", lambda: torch.full((100, 100), 0.3), random=True, slow=True)
def _(x: torch.Tensor) -> Any:
    rand = torch.rand_like(x), torch.rand(9999, device=x.device), torch.bernoulli(x), torch.randint_like(x, 100)
    filled = [
        torch.empty_like(x).uniform_(2, 3),
        torch.empty_like(x).exponential_(),
        torch.empty_like(x).bernoulli_(0.3),
    ]
    return *rand, torch.randn_like(x), torch.randn(9999, device=x.device), torch.normal(x, 1.0), filled


@_program("randperm", lambda: torch.ones(100), random=True)
def _(x: torch.Tensor) -> Any:
    return torch.randperm(100, device=x.device)


@_program("multinomial", lambda: torch.ones(4, 100), random=True)
def _(x: torch.Tensor) -> Any:
    return torch.multinomial(x, 1000, replacement=True)


# ---- lists of tensors


@_program("foreach", *[_floats(size, 5) for size in (3, 40, 7)])
def _(*tensors: torch.Tensor) -> Any:
    each = list(tensors)
    return (
        torch._foreach_add(each, 2.0),
        torch._foreach_mul(each, each),
        torch._foreach_addcdiv(each, each, torch._foreach_exp(each), 0.5),
        torch._foreach_lerp(each, torch._foreach_neg(each), 0.3),
        torch._foreach_sqrt(torch._foreach_abs(each)),
        torch._foreach_maximum(each, 0.0),
        torch._foreach_norm(each),
    )


# ---- numbers


@_program("float64 arithmetic", _floats(50, 40, dtype=torch.float64))
def _(x: torch.Tensor) -> Any:
    return x.exp().log1p().tanh() / (1 + x * x), x.sum(0), x.softmax(1), x.var(1), x.sigmoid().pow(2.5)


@_program("int64 arithmetic", lambda: torch.randint(-(2**40), 2**40, (50, 40)))
def _(x: torch.Tensor) -> Any:
    return x * 3 + 5, x // 7, x % 11, x >> 3, x & 255, x ^ x.flip(0), x.sum(1), x.prod(1), x.clamp(-5, 5), x / 3


@_program("low precision atomics", _whole(4, 8), _whole(400, 8), _places(4, 400))
def _(x: torch.Tensor, source: torch.Tensor, rows: torch.Tensor) -> Any:
    """100 values for each place: with every sum a whole number below 256, both types hold it exactly."""
    halves = (torch.float16, torch.bfloat16)
    sums = [x.to(dtype).index_add(0, rows, (source != 0).to(dtype)) for dtype in halves]
    return sums, [x.to(dtype).scatter_add(0, rows[:, None].expand(400, 8), source.to(dtype)) for dtype in halves]


@_program("complex views", _floats(20, 30, 2))
def _(x: torch.Tensor) -> Any:
    z = torch.view_as_complex(x)
    return torch.view_as_real(z) * 2, z.real + 1, z.imag * 3


@_program("complex arithmetic", _floats(20, 30, 2))
def _(x: torch.Tensor) -> Any:
    z = torch.view_as_complex(x)
    return torch.view_as_real(z * z.conj() + 1), torch.view_as_real(torch.polar(z.real, z.imag))


@_program("complex functions", _floats(20, 30, 2))
def _(x: torch.Tensor) -> Any:
    z = torch.view_as_complex(x)
    return z.abs(), torch.view_as_real(z.exp()), torch.view_as_real(z.sum(0))


# ---- what a device leaves to eager


def left_to_eager(program: Program, device: str) -> list[str]:
    """The operators that the graphs of `program` call on `device`. Left out are products and convolutions, and how the
    seeds of compiled random functions are drawn.
    """
    from torch._inductor.utils import run_and_get_code

    from inductor_npu.diagnostics.explanation.generated import read

    def moved(value: Any) -> Any:
        return value.detach().to(device).requires_grad_(value.requires_grad)

    def run(*inputs: Any) -> None:
        results = torch.compile(program.function, fullgraph=True)(*inputs)
        if program.backward:
            tensors = [each for each in pytree.tree_leaves(results) if each.requires_grad]
            sum(each.float().sum() for each in tensors).backward()

    torch._dynamo.reset()
    _, sources = run_and_get_code(run, *pytree.tree_map_only(torch.Tensor, moved, program.inputs()))
    modules = [read(source) for source in sources]
    called = {call.operator for module in modules for call in module.library_calls}
    called |= {name for module in modules for left in module.left_to_eager for name in left.operators}
    return sorted(name for name in called if not name.startswith("extern_kernels.") and name != _SEEDS)


def main(arguments: Sequence[str]) -> None:
    """Prints, or for cuda writes, what each program leaves to eager on the device that is named."""
    (device,) = arguments
    torch._inductor.config.force_disable_caches = True
    torch._dynamo.config.capture_dynamic_output_shape_ops = True
    left = {name: left_to_eager(program, device) for name, program in PROGRAMS.items()}
    said = {name: operators for name, operators in left.items() if operators}
    if device != "cuda":
        print(json.dumps(said, indent=2))
        return
    about = f"stock Inductor of torch {torch.__version__} on {torch.cuda.get_device_name()}"
    ON_CUDA.write_text(json.dumps({"about": about, "left_to_eager": said}, indent=2) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
