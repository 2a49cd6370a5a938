"""A program in the making. Each statement is run in eager as it is added: so its shapes, dtypes and values are known to
the statements that follow, and one that PyTorch refuses is left out.

What makes two right compilers differ has to be kept out. Floating-point arithmetic may be rounded otherwise, and a
comparison, a sort or a rounding to whole numbers makes a jump of it. So the draft knows of each value whether it is
*exact*: inputs, what only moves elements, and arithmetic on whole numbers so small that nothing is rounded. Statements
that jump take exact operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, TypeVar

import torch
from hypothesis import strategies as st

from fuzz.case import DTYPES, FLOATS, LAYOUTS, Case, Input

SIZES = (1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 100, 129)
MOST_ELEMENTS = 20_000
LARGEST = 1e4  # of floating-point values: half types end at 65504
LARGEST_WHOLE = 256  # to which bfloat16 has all whole numbers

# How eager says that it does not do a statement.
REFUSALS = (RuntimeError, IndexError, ValueError, TypeError, NotImplementedError)

T = TypeVar("T")
Condition = Callable[[torch.Tensor], bool]


class Rounding(Enum):
    """What a statement does to floating-point elements."""

    NONE = "it moves, selects or compares them"
    SUMS = "it adds or multiplies them: exact while they are small whole numbers"
    ALWAYS = "it rounds"


def is_float(tensor: torch.Tensor) -> bool:
    """Whether its dtype is a floating-point one."""
    return tensor.is_floating_point()


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether its dtype is an integer one, not bool."""
    return not tensor.is_floating_point() and tensor.dtype != torch.bool


def anything(tensor: torch.Tensor) -> bool:
    """Any tensor."""
    return True


class Draft:
    """Statements draw from it what they need: operands, axes, numbers. `add` and `change` append to the program."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], gradients: bool) -> None:
        self._draw = draw
        self.gradients = gradients
        self.inputs: list[Input] = []
        self.body: list[str] = []
        self._values: dict[str, torch.Tensor] = {}
        self._exact: dict[str, bool] = {}
        self._space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
        self._space.update({name: getattr(torch, name) for name in DTYPES if name != "bool"})

    # What statements draw.

    def integer(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`."""
        return self._draw(st.integers(low, high))

    def choose(self, options: Sequence[T]) -> T:
        """One of `options`; the first is the simplest."""
        return self._draw(st.sampled_from(options))

    def sometimes(self) -> bool:
        """Yes or no; no is simpler."""
        return self._draw(st.booleans())

    def shape(self, least: int = 0, most: int = 4) -> tuple[int, ...]:
        """`least` to `most` sizes, of MOST_ELEMENTS elements at most; rarely one of them is 0."""
        shape = [self.choose(SIZES) for _ in range(self.integer(least, most))]
        if shape and self.integer(0, 40) == 40:
            shape[self.integer(0, len(shape) - 1)] = 0
        while math.prod(shape) > MOST_ELEMENTS:
            shape[shape.index(max(shape))] //= 2
        return tuple(shape)

    def operand(self, fits: Condition = anything, exact: bool = False) -> str:
        """The name of a value that fits, the latest being the simplest. Raises NothingFits if none does.

        exact: whether only exact ones do.
        """
        fitting = [
            name
            for name, tensor in reversed(self._values.items())
            if fits(tensor) and (self._exact[name] or not exact or not is_float(tensor))
        ]
        if not fitting:
            raise NothingFits
        return self.choose(fitting)

    def of(self, name: str) -> torch.Tensor:
        """The value of that name."""
        return self._values[name]

    def is_exact(self, name: str) -> bool:
        """Whether nothing that leads to it has rounded."""
        return self._exact[name]

    def axis(self, name: str) -> int:
        """An axis of it, counted from either end. Raises NothingFits if it has none."""
        rank = self.of(name).dim()
        if rank == 0:
            raise NothingFits
        axis = self.integer(0, rank - 1)
        return axis - rank if self.sometimes() else axis

    # What statements do.

    def input(self, part: Input) -> str:
        """The name of one more input. If gradients are taken, floating-point ones need them."""
        name = f"x{len(self.inputs)}"
        tensor = part.make()
        if self.gradients and is_float(tensor):
            tensor.requires_grad_()
        self.inputs.append(part)
        self._space[name] = self._values[name] = tensor
        self._exact[name] = True
        return name

    def index(self, shape: tuple[int, ...], bound: int, dtype: str = "int64") -> str:
        """The name of an input of `shape` whose elements may index an axis of size `bound`."""
        if bound == 0:
            raise NothingFits
        return self.input(Input(dtype, shape, values="index", bound=bound, seed=len(self.inputs)))

    def add(self, expression: str, operands: Iterable[str], rounding: Rounding) -> None:
        """Names the result of `expression`, or its results. Left out if PyTorch refuses it or it becomes too large."""
        try:
            result = eval(expression, self._space)
        except REFUSALS:
            return
        results = list(result) if isinstance(result, (tuple, list)) else [result]
        if not results or not all(isinstance(part, torch.Tensor) and _is_sane(part) for part in results):
            return
        names = [f"v{len(self._values) + place}" for place in range(len(results))]
        self.body.append(f"{', '.join(names)}{',' if isinstance(result, (tuple, list)) else ''} = {expression}")
        exact = self._remains_exact(list(operands), results, rounding)
        for name, part in zip(names, results):
            self._space[name] = self._values[name] = part
            self._exact[name] = exact or not is_float(part)

    def change(self, statement: str, target: str, operands: Iterable[str], rounding: Rounding) -> None:
        """A statement that writes into the value `target`, and so into all that share its memory. What a write into a
        value with several elements at one place does, PyTorch does not say: so that is left out.
        """
        if _overlaps(self.of(target)):
            raise NothingFits
        before = self.of(target).detach().clone()
        try:
            exec(statement, self._space)
        except REFUSALS:
            return
        changed = self.of(target)
        if not _is_sane(changed):  # the program goes on without the statement
            with torch.no_grad():
                changed.copy_(before)
            raise NothingFits
        self.body.append(statement)
        if not self._remains_exact([*operands, target], [changed], rounding):
            memory = changed.untyped_storage().data_ptr()
            for name, tensor in self._values.items():
                if tensor.untyped_storage().data_ptr() == memory:
                    self._exact[name] = False

    def say(self, statement: str) -> None:
        """A statement that makes no value."""
        self.body.append(statement)

    def case(self, dynamic: bool) -> Case:
        """The program, with the last value and some others as results."""
        names = list(self._values)
        results = [names[-1]] + [name for name in names[:-1] if self.integer(0, 3) == 3]
        return Case(tuple(self.inputs), (*self.body, f"return ({', '.join(results)},)"), dynamic, self.gradients)

    def _remains_exact(self, operands: list[str], results: list[torch.Tensor], rounding: Rounding) -> bool:
        if rounding is Rounding.ALWAYS or not all(self._exact[name] for name in operands):
            return False
        if rounding is Rounding.NONE:
            return True
        # Sums of half types are formed in float32, where whole numbers end much later.
        tensors = [part.detach() for part in [*(self.of(name) for name in operands), *results] if is_float(part)]
        return all(bool((part == part.round()).all()) and _largest(part) <= LARGEST_WHOLE for part in tensors)


class NothingFits(Exception):
    """The program has no operand for this statement, which is left out."""


def a_new_input(draft: Draft, shape: tuple[int, ...] | None = None) -> str:
    """The name of an input that a program may begin with."""
    dtype = draft.choose(("float32", *DTYPES))
    values = draft.choose(("normal", "integers", "integers", "special")) if dtype in FLOATS else "integers"
    if draft.gradients and values == "special":
        values = "normal"
    chosen = draft.shape() if shape is None else shape
    layouts = LAYOUTS
    if draft.gradients and dtype in FLOATS:
        # Where elements share memory, PyTorch's compiled code takes the gradient of a view through `as_strided`, which
        # divides it among them.
        layouts = tuple(layout for layout in LAYOUTS if layout != "expanded")
    return draft.input(Input(dtype, chosen, draft.choose(layouts), values, seed=len(draft.inputs)))


def _overlaps(tensor: torch.Tensor) -> bool:
    """Whether two of its elements are at one place in memory."""
    places = torch.arange(tensor.untyped_storage().nbytes() // tensor.itemsize)
    places = places.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
    return places.unique().numel() < places.numel()


def _largest(tensor: torch.Tensor) -> float:
    return float(tensor.abs().max()) if tensor.numel() else 0.0


def _is_sane(tensor: torch.Tensor) -> bool:
    if tensor.numel() > MOST_ELEMENTS or tensor.is_complex():
        return False
    if not is_float(tensor):
        return True
    plain = tensor.detach()
    return _largest(plain[plain.isfinite()]) <= LARGEST
