"""Fused operations of `benchmarks/operators.py`, and some with gradients, at sizes that fill the GPU."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F

from benchmarks import operators
from benchmarks.gpu.case import WORKERS, Case, Prepared, Setup
from benchmarks.gpu.measuring import (
    Call,
    device_turn,
    differs_in_distribution,
    in_more_bits,
    largest_difference,
    moved,
    release,
    repeated,
    separate,
    tensors_of,
)

ELEMENTS = 2**26  # of the largest operand: 256 MiB of float32, five times the L2 cache
MADE = 2**22  # elements made by chance, then repeated: the CPU takes long for more
F32, BF16 = torch.float32, torch.bfloat16
TOLERANCE = {F32: 1e-4, BF16: 2e-2}
KNOWN = {operation.name: operation.function for operation in operators.OPERATIONS}


@dataclass(frozen=True)
class Operands:
    """Makes inputs on the CPU, the same in both processes. Rows are fewer in a rehearsal, columns are not."""

    setup: Setup
    dtype: torch.dtype

    def normal(self, *shape: int) -> torch.Tensor:
        return repeated(torch.randn, shape, MADE).to(self.dtype)

    def ids(self, end: int, *shape: int) -> torch.Tensor:
        return repeated(partial(torch.randint, 0, end), shape, MADE)

    def rows(self, columns: int, share: float = 1) -> int:
        return self.setup.scaled(int(ELEMENTS * share) // columns)

    def matrix(self, columns: int, share: float = 1) -> torch.Tensor:
        return self.normal(self.rows(columns, share), columns)

    def images(self) -> torch.Tensor:
        """[64, 64, 128, 128], or fewer."""
        return self.normal(self.setup.scaled(64), 64, 128, 128)


@dataclass(frozen=True)
class Kernel:
    """`function(*inputs(operands))` is compiled. differentiated: so many of the first inputs have gradients, and the
    backward pass is part of it. random: results are compared by their distribution. tolerance: in place of the usual.
    """

    name: str
    function: Callable[..., Any]
    inputs: Callable[[Operands], list[torch.Tensor]]
    dtypes: tuple[torch.dtype, ...] = (F32,)
    differentiated: int = 0
    random: bool = False
    tolerance: float | None = None


def softmax(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x, -1)


def layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def gather(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return x.gather(1, places) * 2


def transposed(x: torch.Tensor) -> torch.Tensor:
    return x.t().contiguous() * 2


def cross_entropy(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, labels)


def adamw_step(*tensors: torch.Tensor) -> list[torch.Tensor]:
    """AdamW in place on a fourth each of parameters, gradients, means and squares; without its count of steps."""
    count = len(tensors) // 4
    parameters, gradients, means, squares = (list(tensors[place * count :][:count]) for place in range(4))
    torch._foreach_lerp_(means, gradients, 0.1)
    torch._foreach_mul_(squares, 0.999)
    torch._foreach_addcmul_(squares, gradients, gradients, 0.001)
    divisors = torch._foreach_sqrt(squares)
    torch._foreach_add_(divisors, 1e-8)
    torch._foreach_mul_(parameters, 1 - 1e-5)
    torch._foreach_addcdiv_(parameters, means, divisors, -1e-3)
    return [*parameters, *means, *squares]


def adamw_inputs(operands: Operands) -> list[torch.Tensor]:
    """16 parameters."""
    matrices = [operands.matrix(1024, 1 / 16) for _ in range(64)]
    return [*matrices[:48], *(matrix.square() for matrix in matrices[48:])]


def norm_inputs(columns: int) -> Callable[[Operands], list[torch.Tensor]]:
    return lambda make: [make.matrix(columns), make.normal(columns), make.normal(columns)]


def sum_inputs(make: Operands) -> list[torch.Tensor]:
    return [make.matrix(4096), make.matrix(4096), make.normal(4096), make.normal(4096)]


def image_inputs(make: Operands) -> list[torch.Tensor]:
    return [make.images(), make.normal(64), make.normal(64)]


def rope_inputs(make: Operands) -> list[torch.Tensor]:
    angle = torch.outer(torch.arange(2048.0), 10000 ** (-torch.arange(32.0) / 32)).repeat(1, 2)[None, :, None, :]
    tables = [table.to(make.dtype) for table in (angle.cos(), angle.sin())]
    return [make.normal(make.setup.scaled(16, 1), 2048, make.setup.scaled(32, 2), 64), *tables]


def mask_inputs(make: Operands) -> list[torch.Tensor]:
    mask = torch.ones(1024, 1024, dtype=torch.bool).triu(1)
    return [make.normal(make.setup.scaled(4, 1), make.setup.scaled(16, 1), 1024, 1024), mask]


def embedding_inputs(make: Operands) -> list[torch.Tensor]:
    batch = make.setup.scaled(64, 1)
    return [make.ids(32768, batch, 1024), make.normal(32768, 1024), make.normal(1024, 1024)]


def gather_inputs(make: Operands) -> list[torch.Tensor]:
    return [x := make.matrix(4096), make.ids(4096, *x.shape)]


def loss_inputs(make: Operands) -> list[torch.Tensor]:
    return [x := make.matrix(32768), make.ids(32768, x.shape[0])]


def index_add_inputs(make: Operands) -> list[torch.Tensor]:
    return [x := make.matrix(512), make.ids(x.shape[0], x.shape[0]), make.matrix(512)]


def pair_inputs(make: Operands) -> list[torch.Tensor]:
    return [make.matrix(4096), make.matrix(4096)]


KERNELS = (
    Kernel("pointwise chain", operators.pointwise_chain, lambda make: [make.matrix(4096) for _ in "xyz"], (F32, BF16)),
    Kernel("gelu(x + bias)", KNOWN["gelu(x + bias)"], lambda make: [make.matrix(4096), make.normal(4096)], (F32, BF16)),
    Kernel("swiglu", operators.swiglu, pair_inputs, (BF16,)),
    Kernel("where and compare", KNOWN["where and compare"], pair_inputs),
    Kernel("softmax, rows of 1k", softmax, lambda make: [make.matrix(1024)]),
    Kernel("softmax, rows of 4k", softmax, lambda make: [make.matrix(4096)], (F32, BF16)),
    Kernel("softmax, rows of 32k", softmax, lambda make: [make.matrix(32768)]),
    Kernel("masked softmax of attention", operators.masked_softmax, mask_inputs, (BF16,)),
    Kernel("rms norm", operators.rms_norm, lambda make: [make.matrix(4096), make.normal(4096)], (F32, BF16)),
    Kernel("layer norm, rows of 1k", layer_norm, norm_inputs(1024), (F32, BF16)),
    Kernel("layer norm of a sum", operators.residual_layer_norm, sum_inputs, (BF16,)),
    Kernel("layer norm, forward + backward", layer_norm, norm_inputs(1024), (F32, BF16), 3, tolerance=2e-2),
    Kernel("transpose", transposed, lambda make: [make.matrix(8192)], (F32, BF16)),
    Kernel(
        "transpose + add", KNOWN["transpose + add"], lambda make: [make.matrix(8192), make.matrix(8192).t().clone()]
    ),
    Kernel("split heads", KNOWN["split heads"], lambda make: rope_inputs(make)[:1], (F32, BF16)),
    Kernel("sum over rows", KNOWN["sum over rows"], lambda make: [make.matrix(4096)], (F32, BF16)),
    Kernel("sum over columns", KNOWN["sum over columns"], lambda make: [make.matrix(4096)], (F32, BF16)),
    Kernel("sum of all", KNOWN["sum of all"], lambda make: [make.matrix(4096)], (F32, BF16)),
    Kernel("variance and mean", KNOWN["variance and mean"], lambda make: [make.matrix(4096)]),
    Kernel("cross entropy, forward + backward", cross_entropy, loss_inputs, (F32, BF16), 1),
    Kernel("batch norm + relu, training", operators.batch_norm, image_inputs),
    Kernel("batch norm + relu, forward + backward", operators.batch_norm, image_inputs, (F32, BF16), 3, tolerance=2e-2),
    Kernel("group norm", KNOWN["group norm"], lambda make: [make.images()]),
    Kernel("argmax", KNOWN["argmax"], lambda make: [make.matrix(4096)], (F32, BF16), tolerance=1e-3),
    Kernel("cumulative sum", KNOWN["cumulative sum"], lambda make: [make.matrix(4096)]),
    Kernel("embedding + position", operators.embed, embedding_inputs, (F32, BF16)),
    Kernel("gather", gather, gather_inputs),
    Kernel("index_add of rows", KNOWN["index_add of rows"], index_add_inputs),
    Kernel("dropout + residual", KNOWN["dropout + residual"], pair_inputs, (F32, BF16), 0, True),
    Kernel(
        "cat + relu", KNOWN["cat + relu"], lambda make: [make.matrix(4096, 0.5), make.matrix(4096, 0.5)], (F32, BF16)
    ),
    Kernel("rope", operators.rope, rope_inputs, (F32, BF16)),
    Kernel("max pool", KNOWN["max pool"], lambda make: [make.images()]),
    Kernel("quantize rows to int8", operators.quantize, lambda make: [make.matrix(4096)], (F32,), tolerance=1e-3),
    Kernel("AdamW step of 16 parameters", adamw_step, adamw_inputs),
    Kernel("sort rows of 256", KNOWN["sort rows of 512"], lambda make: [make.matrix(256, 1 / 4)]),
)


def cases() -> Iterator[Case]:
    """One of each kernel and dtype."""
    for kernel in KERNELS:
        for dtype in kernel.dtypes:
            suffix = ", bf16" if dtype is BF16 else ""
            yield Case("kernels", f"{kernel.name}{suffix}", partial(_prepare, kernel, dtype))


def _prepare(kernel: Kernel, dtype: torch.dtype, setup: Setup, worker: str) -> Prepared:
    """Device seconds; and from both processes the bytes that a call has to move at least, and differences of values."""
    torch.manual_seed(0)
    operands = Operands(setup, dtype)
    inputs = kernel.inputs(operands)
    gradient = None
    if kernel.differentiated:
        gradient = operands.normal(*kernel.function(*(tensor.to("meta") for tensor in inputs)).shape)
    results, turns = {}, {}
    for side in WORKERS[worker]:
        device = setup.device(side)
        function = separate(kernel.function, side)
        compiled = function if side == "eager" else torch.compile(function, dynamic=False)
        call = _call(kernel, compiled, moved(inputs, device), gradient)
        # What works in place changes its results with the next call.
        results[side] = [tensor.detach().clone() for tensor in tensors_of(call())]
        turns[side] = device_turn(setup, call, device)
    if worker == "ours":
        return Prepared(turns, results=results["ours"])

    def finish(numbers: Mapping[str, Any], ours: list[torch.Tensor]) -> dict[str, Any]:
        given = inputs if gradient is None else [*inputs, gradient]
        errors = _errors(kernel, moved(inputs, setup.stock), gradient, {**results, "ours": ours})
        tolerance = max(kernel.tolerance or TOLERANCE[dtype], 3 * errors["error_of_stock"])
        return {"bytes": sum(map(_bytes, [*given, *ours])), **errors, "differs": not errors["error"] <= tolerance}

    return Prepared(turns, finish=finish)


def _call(
    kernel: Kernel, function: Callable[..., Any], inputs: list[torch.Tensor], gradient: torch.Tensor | None
) -> Call:
    if gradient is None:

        def forward() -> Any:
            with torch.no_grad():
                return function(*inputs)

        return forward
    learned = [tensor.requires_grad_() for tensor in inputs[: kernel.differentiated]]
    (given,) = moved([gradient.to(inputs[0].dtype)], inputs[0].device.type)

    def both() -> list[torch.Tensor]:
        result = function(*inputs)
        return [result.detach(), *torch.autograd.grad(result, learned, given)]

    return both


def _errors(
    kernel: Kernel, inputs: list[torch.Tensor], gradient: torch.Tensor | None, results: dict[str, list[torch.Tensor]]
) -> dict[str, float]:
    """Of ours and of stock, against eager with more bits; of random results, against eager."""
    if kernel.random:
        reference, difference = results["eager"], differs_in_distribution
    else:
        reference, difference = _call(kernel, kernel.function, in_more_bits(inputs), gradient)(), largest_difference
    return {
        "error": difference(results["ours"], reference),
        "error_of_stock": difference(results["stock"], reference),
    }


def _bytes(tensor: torch.Tensor) -> int:
    return tensor.numel() * tensor.element_size()


def copy_bandwidth(setup: Setup, device: str) -> float:
    """Bytes a second, read and written, of a copy of 1 GiB on the device by eager PyTorch."""
    source = torch.ones(setup.scaled(2**28)).to(device)
    target = torch.empty_like(source)
    turn = device_turn(setup, partial(target.copy_, source), device)
    rate = 2 * _bytes(source) / statistics.median(turn() for _ in range(setup.rounds))
    del source, target, turn
    release(device)
    return rate
