"""Small programs whose emitted kernels are kept in git, to be read and to see what a change does to them."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F

from tests.codegen.texts import module_of

FOLDER = Path(__file__).parent / "golden"
# Inductor writes a loop as its version does: the files are those of these.
TORCHES = ("2.13", "2.14", "2.15")

_KERNEL = re.compile(r"async_compile\.triton\('\w+', '''(.*?)''', device_str", re.DOTALL)


@dataclass(frozen=True)
class Golden:
    """`function`, compiled for inputs of these `shapes`: floats, or an int64 tensor where a shape is a list."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int, ...] | list[int], ...]
    dynamic: bool = False

    def inputs(self) -> list[torch.Tensor]:
        """Zeros on npu."""
        return [
            torch.zeros(shape, dtype=torch.int64 if isinstance(shape, list) else torch.float32, device="npu")
            for shape in self.shapes
        ]


def rotary_embedding(query: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotates pairs of a head's halves."""
    first, second = query.chunk(2, -1)
    return query * cos + torch.cat([-second, first], -1) * sin


PROGRAMS = {
    "pointwise_with_bias": Golden(lambda x, bias: F.gelu(x + bias), ((100, 77), (77,))),
    "transpose": Golden(lambda x, y: x.t() + y, ((300, 200), (200, 300))),
    "permute_0213": Golden(lambda x: x.permute(0, 2, 1, 3).contiguous() * 2, ((4, 12, 16, 64),)),
    "softmax": Golden(lambda x: torch.softmax(x, -1), ((50, 777),)),
    "long_softmax": Golden(lambda x: torch.softmax(x, -1), ((512, 50000),)),
    "dynamic_softmax": Golden(lambda x, bias: torch.softmax(x + bias, -1), ((50, 77), (77,)), dynamic=True),
    "layer_norm": Golden(lambda x, w, b: F.layer_norm(x, (768,), w, b), ((50, 768), (768,), (768,))),
    "sum_over_rows": Golden(lambda x: x.sum(0), ((500, 300),)),
    "linear_gelu": Golden(lambda x, w, b: F.gelu(F.linear(x, w, b)), ((256, 384), (1024, 384), (1024,))),
    "gated_product": Golden(lambda x, a, b: F.silu(x @ a) * (x @ b), ((100, 96), (96, 200), (96, 200))),
    "argmax": Golden(lambda x: x.argmax(-1), ((70, 500),)),
    "concat": Golden(lambda x, y: torch.cat([x, y], 1) * 2, ((50, 64), (50, 32))),
    "pad": Golden(lambda x: F.pad(x, (1, 2, 3, 4)) * 2, ((20, 30, 40),)),
    "embedding": Golden(lambda table, i: F.embedding(i, table) * 2, ((100, 384), [8, 16])),
    "gather": Golden(lambda x, i: torch.gather(x, 1, i) * 2, ((100, 384), [100, 50])),
    "batch_norm_statistics": Golden(
        lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ((8, 32, 14, 14), (32,), (32,))
    ),
    "rotary_embedding": Golden(rotary_embedding, ((2, 8, 128, 64), (128, 64), (128, 64))),
}


@functools.cache
def sources_of(name: str) -> list[str]:
    """The kernels of a program of `PROGRAMS`, each the text of a module, in Inductor's order."""
    program = PROGRAMS[name]
    with torch.no_grad():
        return _KERNEL.findall(module_of(program.function, *program.inputs(), dynamic=program.dynamic))


def emitted(name: str) -> str:
    """The kernels of a program from `@triton.jit` on."""
    return "\n\n".join(source[source.index("@triton.jit") :] for source in sources_of(name))


def kept(name: str) -> Path:
    """Where the accepted kernels of a program are. Not `.py`: nobody imports, formats or checks them."""
    return FOLDER / f"{name}.py.txt"
