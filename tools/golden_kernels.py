"""A program of each family of kernels, compiled for `npu` and held against float64 on the CPU. Small, and in one
process: what compute-sanitizer runs (tools/gpu.sh).

python tools/golden_kernels.py                  all of them; the exit status is 1 where one failed
python tools/golden_kernels.py softmax scatter  those with one of these in their name

Shapes are odd on purpose: each kernel has a partial tile.
"""

from __future__ import annotations

import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F

Tensors = list[torch.Tensor]


@dataclass(frozen=True)
class Program:
    """`function(*inputs())`. differentiated: so many of the first inputs have gradients, which are compared, too.
    captured: as a captured graph, called three times. check: what holds for random results, of inputs and results.
    """

    name: str
    function: Callable[..., Any]
    inputs: Callable[[], Tensors]
    differentiated: int = 0
    captured: bool = False
    check: Callable[[Tensors, Tensors], bool] | None = None
    tolerance: float = 1e-4


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape).to(dtype)


def ids(end: int, *shape: int) -> torch.Tensor:
    return torch.randint(0, end, shape)


def chain(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return (torch.sin(x) * y + torch.sigmoid(y)).clamp(-1, 1)


def norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def rotated(x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


def image_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.relu(F.batch_norm(x, None, None, weight, bias, training=True))


def scatter(x: torch.Tensor, places: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.index_add(0, places, y) * 2


def put(x: torch.Tensor, places: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x.scatter_add(1, places, y)


def lookup(table: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return F.embedding(places, table) * 2


def gather(x: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    return x.gather(1, places) + 1


def joined(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return F.relu(torch.cat((x, y), 1))


def dropped(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x, 0.25)


def is_dropped(inputs: Tensors, results: Tensors) -> bool:
    """A quarter is zero, the others are divided by three quarters."""
    kept = results[0] != 0
    share = 1 - kept.float().mean().item()
    return abs(share - 0.25) < 0.03 and torch.allclose(results[0][kept], (inputs[0] / 0.75)[kept])


def long_sums(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    return x.square().sum(), x.exp().sum(0)


def loss(x: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(x, labels)


def two_steps(x: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x.cumsum(-1), -1).cumsum(0)


def pooled(x: torch.Tensor) -> torch.Tensor:
    return F.max_pool2d(F.relu(x), 3, 2, 1)


def products(x: torch.Tensor, y: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return torch.addmm(bias, F.relu(x @ y), y)


PROGRAMS = (
    Program("pointwise", chain, lambda: [normal(77, 1031), normal(77, 1031)]),
    Program("pointwise, bf16", chain, lambda: [normal(33, 515, dtype=torch.bfloat16) for _ in "xy"], tolerance=2e-2),
    Program("gelu of a broadcast sum", lambda x, b: F.gelu(x + b), lambda: [normal(100, 777), normal(777)]),
    Program("sum over rows", lambda x: x.exp().sum(-1), lambda: [normal(333, 1029)]),
    Program("sums over columns and of all", long_sums, lambda: [normal(2051, 131)], tolerance=1e-3),
    Program("sums over many columns", lambda x: x.exp().sum(0), lambda: [normal(1027, 4099)], tolerance=1e-3),
    Program("max pool with gradients", pooled, lambda: [normal(3, 5, 67, 131)], 1),
    Program("sum over rows, larger than L2", lambda x: x.exp().sum(-1), lambda: [normal(4999, 3001)]),
    Program("products of matrices", products, lambda: [normal(65, 33), normal(33, 33), normal(33)], tolerance=1e-3),
    Program("softmax", lambda x: torch.softmax(x, -1), lambda: [normal(50, 777)]),
    Program("softmax of long rows", lambda x: torch.softmax(x, -1), lambda: [normal(5, 33001)]),
    Program("softmax of long rows, whole in a program", lambda x: torch.softmax(x, -1), lambda: [normal(1057, 9001)]),
    Program("layer norm with gradients", norm, lambda: [normal(129, 770), normal(770), normal(770)], 3, tolerance=1e-3),
    Program(
        "layer norm of many rows with gradients",
        norm,
        lambda: [normal(49155, 130), normal(130), normal(130)],
        3,
        tolerance=1e-3,
    ),
    Program(
        "batch norm with gradients",
        image_norm,
        lambda: [normal(6, 10, 13, 17), normal(10), normal(10)],
        3,
        tolerance=1e-3,
    ),
    Program("cross entropy with gradients", loss, lambda: [normal(130, 2001), ids(2001, 130)], 1),
    Program("variance and mean", lambda x: torch.var_mean(x, -1), lambda: [normal(70, 1500)]),
    Program("argmax", lambda x: x.argmax(-1), lambda: [normal(70, 501)]),
    Program("cumulative sum", lambda x: x.cumsum(-1), lambda: [normal(37, 1201)], tolerance=1e-3),
    Program("sort", lambda x: x.sort(-1)[0], lambda: [normal(60, 100)]),
    Program("atomics: index_add of rows", scatter, lambda: [normal(50, 65), ids(50, 400), normal(400, 65)]),
    Program("atomics: scatter_add in rows", put, lambda: [normal(40, 70), ids(70, 40, 50), normal(40, 50)]),
    Program("embedding with gradients", lookup, lambda: [normal(101, 66), ids(101, 9, 17)], 1),
    Program("gather", gather, lambda: [normal(61, 300), ids(300, 61, 77)]),
    Program("transpose", lambda x, y: x.t() * 2 + y, lambda: [normal(301, 203), normal(203, 301)]),
    Program("cat", joined, lambda: [normal(50, 65), normal(50, 31)]),
    Program("rotation of halves", rotated, lambda: [normal(2, 33, 5, 66), normal(33, 1, 66), normal(33, 1, 66)]),
    Program("dropout", dropped, lambda: [normal(200, 301)], check=is_dropped),
    Program("a captured graph", two_steps, lambda: [normal(31, 257)], captured=True, tolerance=1e-3),
)


def main() -> int:
    """Runs what is asked for; prints a line for each, and the errors."""
    asked = sys.argv[1:]
    chosen = [program for program in PROGRAMS if not asked or any(part in program.name for part in asked)]
    failed = []
    for program in chosen:
        began = time.perf_counter()
        try:
            told = _tried(program)
        except Exception as error:  # noqa: BLE001 - printed, and the exit status tells
            traceback.print_exc()
            told = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        if told:
            failed.append(program.name)
        print(f"{program.name}: {told or 'as on the CPU'} ({time.perf_counter() - began:.1f} s)", flush=True)
    print(f"{len(chosen) - len(failed)} of {len(chosen)} programs as on the CPU; failed: {', '.join(failed) or 'none'}")
    return int(bool(failed))


def _tried(program: Program) -> str:
    """What is wrong, or nothing."""
    torch.manual_seed(0)
    torch._dynamo.reset()
    inputs = program.inputs()
    options = {"triton.cudagraphs": True} if program.captured else {}
    compiled = torch.compile(program.function, dynamic=False, options=options)
    there = [tensor.to("npu") for tensor in inputs]
    results = _results(program, compiled, there)
    if program.captured:
        for _ in range(3):
            results = _results(program, compiled, there)
    results = [result.cpu() for result in results]
    if program.check is not None:
        return "" if program.check(inputs, results) else "not what holds for random results"
    reference = [tensor.double() if tensor.is_floating_point() else tensor for tensor in inputs]
    expected = _results(program, program.function, reference)
    for place, (left, right) in enumerate(zip(results, expected, strict=True)):
        if left.shape != right.shape:
            return f"result {place} has shape {tuple(left.shape)}, not {tuple(right.shape)}"
        difference = (left.double() - right.double()).abs().max().item() / max(right.double().abs().max().item(), 1e-30)
        if not difference <= program.tolerance:
            return f"result {place} differs by {difference:.1e} of the largest value"
    return ""


def _results(program: Program, function: Callable[..., Any], inputs: Tensors) -> Tensors:
    learned = [tensor.detach().requires_grad_() for tensor in inputs[: program.differentiated]]
    with torch.set_grad_enabled(bool(learned)):
        result = function(*learned, *inputs[program.differentiated :])
    results = [result] if isinstance(result, torch.Tensor) else list(result)
    if learned:  # the result as its own gradient: not the same everywhere
        gradient = results[0].detach().cpu().cos().to(results[0].device)
        results += torch.autograd.grad(results[0], learned, gradient)
    return [result.detach() for result in results]


if __name__ == "__main__":
    sys.exit(main())
