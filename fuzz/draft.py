"""A program under construction. Each statement runs in eager as it is added, so that the following statements know its
shapes, dtypes and values, and a statement that PyTorch refuses is left out.

Legitimate differences between two correct compilers have to be excluded. Floating-point arithmetic may round
differently, and a comparison, a sort or a rounding to integers turns that into a jump. So the draft knows of each value
whether it is *exact*: inputs, what only moves elements, and arithmetic on integers so small that nothing is rounded.
Discontinuous statements take exact operands.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import Any, TypeVar

import torch
from hypothesis import strategies as st

from fuzz.case import DTYPES, FLOATS, LAYOUTS, Case, Input, is_float
from fuzz.wider import wider

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


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether its dtype is an integer one, not bool."""
    return not (tensor.is_floating_point() or tensor.is_complex() or tensor.dtype == torch.bool)


def is_real(tensor: torch.Tensor) -> bool:
    """Whether its elements are numbers on a line that PyTorch computes with, or truth values."""
    return is_float(tensor) or is_whole(tensor) or tensor.dtype == torch.bool


def anything(tensor: torch.Tensor) -> bool:
    """Any tensor."""
    return True


class Draft:
    """Statements draw from it what they need: operands, axes, numbers. `add` and `change` append to the program."""

    def __init__(self, draw: Callable[[st.SearchStrategy[Any]], Any], gradients: bool, more: int = 0) -> None:
        """more: by how much the inputs of a second call are larger; 0 if there is none."""
        self._draw = draw
        self.gradients = gradients
        self.inputs: list[Input] = []
        self.body: list[str] = []
        self._more = more
        self._runs = [_Run(each) for each in dict.fromkeys((0, more))]
        self._values = self._runs[0].values
        self._exact: dict[str, bool] = {}

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
            if fits(tensor) and (self._exact[name] or not exact or not _has_fractions(tensor))
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
        self.inputs.append(part)
        for run in self._runs:
            tensor = part.grown(run.more).make()
            run.hold(name, tensor.requires_grad_() if self.gradients and is_float(tensor) else tensor)
        self._exact[name] = True
        return name

    def index(self, shape: tuple[int, ...], bound: int, dtype: str = "int64", values: str = "index") -> str:
        """The name of an input of `shape` whose elements may index an axis of size `bound`."""
        if bound == 0:
            raise NothingFits
        return self.input(Input(dtype, shape, values=values, bound=bound, seed=len(self.inputs)))

    def add(self, expression: str, operands: Iterable[str], rounding: Rounding) -> None:
        """Names the result of `expression`, or its results. Left out if PyTorch refuses it or it becomes too large."""
        try:
            outcomes = [run.result(expression) for run in self._runs]
        except REFUSALS:
            return
        several = isinstance(outcomes[0], (tuple, list))
        every = [list(result) if several else [result] for result in outcomes]
        if not every[0] or len({len(results) for results in every}) > 1:
            return
        if not all(isinstance(part, torch.Tensor) and _is_sane(part) for results in every for part in results):
            return
        names = [f"v{len(self._values) + place}" for place in range(len(every[0]))]
        self.body.append(f"{', '.join(names)}{',' if several else ''} = {expression}")
        read = list(operands)
        exact = all(self._remains_exact(run, read, results, rounding) for run, results in zip(self._runs, every))
        for run, results in zip(self._runs, every):
            for name, part in zip(names, results):
                run.hold(name, part)
                self._exact[name] = exact or not _has_fractions(part)

    def change(self, statement: str, target: str, operands: Iterable[str], rounding: Rounding) -> None:
        """A statement that writes into the value `target`, and so into all that share its memory. What a write into a
        value with several elements at one place does, PyTorch does not say: so that is left out.
        """
        targets = [run.values[target] for run in self._runs]
        if any(_overlaps(tensor) for tensor in targets):
            raise NothingFits
        before = [tensor.detach().clone() for tensor in targets]
        try:
            for run in self._runs:
                run.do(statement)
        except REFUSALS:
            done = False
        else:
            done = all(_is_sane(tensor) for tensor in targets)
        if not done:  # the program goes on without the statement
            with torch.no_grad():
                for tensor, saved in zip(targets, before):
                    tensor.copy_(saved)
            raise NothingFits
        self.body.append(statement)
        read = [*operands, target]
        if not all(self._remains_exact(run, read, [run.values[target]], rounding) for run in self._runs):
            memory = targets[0].untyped_storage().data_ptr()
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
        body = (*self.body, f"return ({', '.join(results)},)")
        return Case(tuple(self.inputs), body, dynamic, self.gradients, self._more)

    def _remains_exact(self, run: _Run, operands: list[str], results: list[torch.Tensor], rounding: Rounding) -> bool:
        if rounding is Rounding.ALWAYS or not all(self._exact[name] for name in operands):
            return False
        if rounding is Rounding.NONE:
            return True
        # Sums of half types are formed in float32, where whole numbers end much later.
        parts = [*(run.values[name] for name in operands), *results]
        tensors = [_numbers(part) for part in parts if _has_fractions(part)]
        return all(bool((part == part.round()).all()) and _largest(part) <= LARGEST_WHOLE for part in tensors)


class _Run:
    """What the names of the program stand for where the sizes of inputs are larger by `more`."""

    def __init__(self, more: int) -> None:
        self.more = more
        self.values: dict[str, torch.Tensor] = {}
        self._space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional, "wider": wider}
        self._space.update({name: getattr(torch, name) for name in DTYPES if name != "bool"})

    def hold(self, name: str, tensor: torch.Tensor) -> None:
        """Names it."""
        self._space[name] = self.values[name] = tensor

    def result(self, expression: str) -> Any:
        """Of `expression`. Raises one of REFUSALS if PyTorch does not compute it."""
        return eval(expression, self._space)

    def do(self, statement: str) -> None:
        """A statement that writes into a value. Raises one of REFUSALS if PyTorch does not do it."""
        exec(statement, self._space)


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


def _has_fractions(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def _numbers(tensor: torch.Tensor) -> torch.Tensor:
    """Its elements in float64; of complex ones both parts."""
    plain = tensor.detach()
    return torch.view_as_real(plain.resolve_conj()).double() if plain.is_complex() else plain.double()


def _is_sane(tensor: torch.Tensor) -> bool:
    if tensor.numel() > MOST_ELEMENTS:
        return False
    if not _has_fractions(tensor):
        return True
    if tensor.is_floating_point() and not is_float(tensor):
        return True  # float8: what is computed of it says whether it is too large
    numbers = _numbers(tensor)
    return _largest(numbers[numbers.isfinite()]) <= LARGEST
