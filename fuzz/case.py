"""A program of the fuzzer: inputs, the text of a function, how it is compiled. It is kept as a Python file."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any

import torch

from fuzz.wider import as_elsewhere

DTYPES = ("float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool")
FLOATS = DTYPES[:4]
FLOATS8 = ("float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz")  # stored, and computed with as another
LAYOUTS = ("contiguous", "transposed", "every second", "inside", "reversed order", "expanded")
_FILES = count()


@dataclass(frozen=True)
class Input:
    """A tensor that is made of its description alone.

    values: "integers" (small ones, which floating-point arithmetic does not round), "normal" (of the standard normal
        distribution, rounded to bfloat16, so that every dtype has them), "special" (normal, with NaN, infinities and
        zeros of both signs), "index" (integers from 0 to `bound` - 1) or "ends" (the same, half of them the last).
    """

    dtype: str
    shape: tuple[int, ...]
    layout: str = "contiguous"
    values: str = "integers"
    bound: int = 0
    seed: int = 0

    def make(self) -> torch.Tensor:
        """On the CPU, of `shape`, with the strides that `layout` names."""
        generator = torch.Generator().manual_seed(self.seed)
        dtype = getattr(torch, self.dtype)
        if self.values in ("index", "ends"):
            tensor = torch.randint(0, self.bound, self.shape, generator=generator).to(dtype)
            if self.values == "ends":
                tensor[torch.rand(self.shape, generator=generator) < 0.5] = self.bound - 1
        elif self.dtype == "bool":
            tensor = torch.rand(self.shape, generator=generator) < 0.5
        elif self.values == "integers" or not dtype.is_floating_point:
            low = 0 if self.dtype == "uint8" else -4
            tensor = torch.randint(low, 5, self.shape, generator=generator).to(dtype)
        else:
            tensor = torch.randn(self.shape, generator=generator).to(torch.bfloat16).to(dtype)
        if self.values == "special":
            kinds = torch.tensor([float("nan"), float("inf"), -float("inf"), 0.0, -0.0], dtype=dtype)
            chosen = kinds[torch.randint(0, 5, self.shape, generator=generator)]
            tensor = torch.where(torch.rand(self.shape, generator=generator) < 0.2, chosen, tensor)
        return laid_out(tensor, self.layout)

    def grown(self, more: int) -> Input:
        """The same with `more` added to each size of three and more, and to the size of the axis that it indexes: equal
        ones remain equal, and those with a meaning of their own (1 broadcasts, 2 are the parts of a complex number) as
        they are.
        """
        shape = tuple(_grown(size, more) for size in self.shape)
        return replace(self, shape=shape, bound=_grown(self.bound, more))


def _grown(size: int, more: int) -> int:
    return size + more if size >= 3 else size


def is_float(tensor: torch.Tensor) -> bool:
    """Whether its dtype is a floating-point one that PyTorch computes with and takes gradients of."""
    return tensor.is_floating_point() and tensor.itemsize > 1


def laid_out(tensor: torch.Tensor, layout: str) -> torch.Tensor:
    """A tensor of the same shape and values (of `expanded`: the first along the first axis repeated) whose strides are
    those of `layout`.
    """
    if tensor.dim() == 0:
        return tensor
    match layout:
        case "transposed":
            return tensor.transpose(0, -1).contiguous().transpose(0, -1)
        case "reversed order":
            order = tuple(reversed(range(tensor.dim())))
            return tensor.permute(order).contiguous().permute(order)
        case "every second":
            wide = tensor.new_zeros((*tensor.shape[:-1], 2 * tensor.shape[-1]))
            wide[..., ::2] = tensor
            return wide[..., ::2]
        case "inside":
            wide = tensor.new_zeros((tensor.shape[0] + 2, *(size + 1 for size in tensor.shape[1:])))
            part = wide[(slice(1, -1), *(slice(0, size) for size in tensor.shape[1:]))]
            part.copy_(tensor)
            return part
        case "expanded":
            return tensor[:1].expand(tensor.shape) if tensor.shape[0] else tensor
    return tensor


@dataclass(frozen=True)
class Case:
    """`body` are the statements of `def program(x0, x1, ...)`, the last of them a return of a tuple.

    dynamic: whether sizes are arguments of the compiled code. gradients: whether floating-point inputs need them. more:
    by how much the inputs of a second call are larger (Input.grown); 0 if there is none, and if not `dynamic`, sizes
    become arguments with it. vectors: how many bits the vectors of the embedded NPU's code have; 0 for the host's.
    threads: how many call the compiled function at once, after a first call; 0 for none.
    """

    inputs: tuple[Input, ...]
    body: tuple[str, ...]
    dynamic: bool = False
    gradients: bool = False
    more: int = 0
    vectors: int = 0
    threads: int = 0

    @property
    def text(self) -> str:
        """The case as a Python file."""
        arguments = ", ".join(f"x{place}" for place in range(len(self.inputs)))
        lines = [
            "import torch",
            "import torch.nn.functional as F",
            "from torch import bfloat16, float16, float32, float64, int8, int16, int32, int64, uint8",
            "",
            "from fuzz.case import Input",
            "from fuzz.wider import wider",
            "",
            "INPUTS = (",
            *(f"    {part!r}," for part in self.inputs),
            ")",
            f"DYNAMIC = {self.dynamic}",
            f"GRADIENTS = {self.gradients}",
            f"MORE = {self.more}",
            f"VECTORS = {self.vectors}",
            f"THREADS = {self.threads}",
            "",
            "",
            f"def program({arguments}):",
            *(f"    {statement}" for statement in self.body),
        ]
        return "\n".join(lines) + "\n"

    @staticmethod
    def of(text: str) -> Case:
        """The case that `text` is of."""
        space = _executed(text)
        body = text[text.index("def program(") :].splitlines()[1:]
        return Case(
            space["INPUTS"],
            tuple(line[4:] for line in body if line.strip()),
            space["DYNAMIC"],
            space["GRADIENTS"],
            space.get("MORE", 0),  # kept programs may be older
            space.get("VECTORS", 0),
            space.get("THREADS", 0),
        )

    @staticmethod
    def read(path: Path) -> Case:
        """The case that is kept in the file `path`."""
        return Case.of(path.read_text())

    def with_unknown_numbers(self) -> Case:
        """The same with int64 inputs without dimensions in int32. On the CPU, and nowhere else, Dynamo knows the value
        of the former, so that an index that is one does not break the graph.
        """
        unknown = (
            replace(part, dtype="int32") if part.dtype == "int64" and part.shape == () else part for part in self.inputs
        )
        return replace(self, inputs=tuple(unknown))

    def grown(self) -> Case:
        """The same program with the inputs of the second call."""
        return replace(self, inputs=tuple(part.grown(self.more) for part in self.inputs))

    def program(self, wide: bool = False, elsewhere: bool = False) -> Callable[..., tuple[Any, ...]]:
        """The function, a new one each time. wide: with float64 in place of each floating-point dtype that it names.
        elsewhere: with the operators that other devices take, on the CPU, too.
        """
        space = _executed(self.text)
        if elsewhere:
            space["wider"] = as_elsewhere
        if wide:
            space.update(dict.fromkeys(FLOATS, torch.float64))
        return space["program"]

    def arguments(self) -> Iterator[torch.Tensor]:
        """Its inputs, on the CPU."""
        return (part.make() for part in self.inputs)


def _executed(text: str) -> dict[str, Any]:
    """The names that `text` defines. Tracebacks and Dynamo find its lines."""
    name = f"<fuzz case {next(_FILES)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"__name__": "fuzz_case"}
    exec(compile(text, name, "exec"), space)
    return space
