"""What programs are made of: each kind of statement is drawn, and PyTorch's eager mode does what was drawn."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from fuzz.case import FLOATS8, Case, Input, is_float
from fuzz.check import observe
from fuzz.draft import Draft, NothingFits, Rounding, a_new_input
from fuzz.rounding import integers_become_float64
from fuzz.statements import (
    STATEMENTS,
    booleans,
    borders,
    complex_numbers,
    elsewhere,
    float8,
    models,
    row_ends,
    shifts,
    sizes,
    uninitialised,
    zeros,
)
from fuzz.wider import wider

T = TypeVar("T")

# What has to be among the statements of each, as regular expressions.
KINDS: dict[ModuleType, tuple[str, ...]] = {
    booleans: (
        r"\.sum\(-?\d.*dtype=torch\.bool",
        r"\.prod\(.*dtype=torch\.bool",
        r"\.sum\(\(.*dtype=torch\.bool",
        r"torch\.cumsum.*dtype=torch\.bool",
        r"torch\.cumprod.*dtype=torch\.bool",
        r"> 0\)\.cum",
        r"\.sum\(.*dtype=int8",
        r"\.any\(",
    ),
    shifts: (
        r"= \w+ >> -8",
        r"= \w+ << 64",
        r"= \w+ >> \w+$",
        r"\.to\(uint8\) >> 8",
        r"wider\(torch\.bitwise_right_shift, .*torch\.uint16",
        r"wider\(torch\.bitwise_left_shift, .*torch\.uint32",
    ),
    zeros: (r"torch\.signbit\(.*torch\.relu\(\(", r"torch\.reciprocal\(.*torch\.log1p", r"\* -0\.0"),
    models: (
        r"torch\.roll\(.*\.permute\(0, 1, 3, 2, 4, 5\)",
        r"torch\.softmax\(.*\[x\d+\], -1\) @ ",
        r"torch\.cat\(\[part @ x\d+ for part in torch\.chunk",
        r"sum\(\(part @ ",
        r"^v\d+ = \w+\.clone\(\)$",
        r"^\w+\.copy_\(",
    ),
    sizes: (
        r"\* \(\(.*shape\[-?\d\] % 2 == 0",
        r"torch\.full\(\(3,\), \(.*>= ",
        r"torch\.sym_not",
        r" and ",
        r" or ",
        r" & ",
        r"torch\.full\(.*//",
        r"alpha=",
        r"\.narrow\(",
    ),
    borders: (
        *(rf"F\.pad\(.*shape\[-?\d\] // 2.*mode='{mode}'" for mode in dict.fromkeys(borders.MODES)),
        r"F\.conv1d\(F\.pad\(",
        r"F\.conv2d\(F\.pad\(.*mode='reflect'",
        r"F\.conv2d\(F\.pad\(.*mode='constant'",
    ),
    row_ends: (
        r"torch\.gather\(.*, -1, ",
        r"\[\.\.\., x\d+\] [+-] ",
        r"\[\.\.\., -1 - ",
        r"F\.interpolate\(.*size=\(\d*[13579], \d*[13579]\), mode='nearest'",
        r"scale_factor=3, mode='nearest'",
    ),
    float8: (
        *(rf"\.to\(torch\.{dtype}\)$" for dtype in FLOATS8),
        *(rf"\* 32768\)\.detach\(\)\.to\(torch\.{dtype}\)" for dtype in FLOATS8),
        r"\.to\(torch\.float8_\w+\)\.to\(torch\.float8_\w+\)",
        r"^v\d+ = \w+\.to\(float\d+\) \* 0\.0078125",
    ),
    complex_numbers: (
        r"view_as_complex\(x\d+\.transpose",
        r"view_as_complex\(\(",
        r"torch\.complex\(",
        r"view_as_real\(",
        r"\.conj\(\) \* ",
        r"\.imag$",
    ),
    uninitialised: (
        r"torch\.empty\(.*\.to\(.*\.device\)\.copy_",
        r"torch\.empty\(.*\.to\(.*\.device\)\.fill_",
        r"out=torch\.empty",
        r"new_empty",
    ),
    elsewhere: (r"torch\.histc", r"torch\.abs", r"avg_pool3d", r"antialias", r"local_response_norm", r"multi_margin"),
}


class ByChance(Draft):
    """A draft whose choices are made by chance, each alike: hypothesis prefers some, and repeats itself."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)
        super().__init__(lambda strategy: None, gradients=seed % 2 == 1, more=seed % 3)

    def integer(self, low: int, high: int) -> int:
        return self._chance.randint(low, high)

    def choose(self, options: Sequence[T]) -> T:
        return self._chance.choice(options)

    def sometimes(self) -> bool:
        return self._chance.random() < 0.5


def drawn(family: ModuleType, seed: int) -> Case:
    """A program of one input and the statements of `family`, each twice."""
    draft = ByChance(seed)
    a_new_input(draft)
    for statement in family.STATEMENTS * 2:
        with suppress(NothingFits):
            statement(draft)
    return draft.case(dynamic=True)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("family", KINDS, ids=lambda family: family.__name__.rpartition(".")[2])
def test_each_kind_is_drawn_and_eager_does_it(family: ModuleType) -> None:
    assert set(family.STATEMENTS) <= set(STATEMENTS)
    programs = [drawn(family, seed) for seed in range(120)]
    lines = [line for program in programs for line in program.body[:-1]]
    assert len(lines) >= len(programs) * len(family.STATEMENTS)  # half of what was asked for
    assert [kind for kind in KINDS[family] if not any(re.search(kind, line) for line in lines)] == []
    for program in programs[:24]:
        for call in (program, program.grown()):
            arguments = list(call.arguments())
            results = observe(call.program(), arguments, call.gradients).results
            wide = [argument.double() if is_float(argument) else argument for argument in arguments]
            with integers_become_float64():
                reference = observe(call.program(wide=True), wide, call.gradients).results
            assert [result.shape for result in results] == [result.shape for result in reference]


def test_what_is_never_written_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = [drawn(uninitialised, seed) for seed in range(30)]

    def results(filling: float) -> list[tuple[torch.Tensor, ...]]:
        with MemoryHolds(filling):
            return [
                observe(program.program(), list(program.arguments()), program.gradients).results for program in programs
            ]

    for one, other in zip(results(3), results(5), strict=True):
        assert all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in zip(one, other, strict=True))


class MemoryHolds(TorchDispatchMode):
    """Within it new memory holds `filling`."""

    def __init__(self, filling: float) -> None:
        super().__init__()
        self._filling = filling

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result.fill_(self._filling) if "empty" in func.__name__ else result


def test_what_a_second_call_with_other_sizes_refuses_is_left_out() -> None:
    draft = Draft(lambda strategy: None, gradients=False, more=1)
    name = draft.input(Input("float32", (4, 6)))
    draft.add(f"{name}.reshape(2, 2, 6)", [name], Rounding.NONE)
    draft.add(f"{name}.chunk(3, 1)", [name], Rounding.NONE)
    draft.add(f"{name} + 1", [name], Rounding.NONE)
    draft.add(f"{name}.sum(0) * 60", [name], Rounding.SUMS)
    with pytest.raises(NothingFits):
        draft.change(
            f"{name}[:, :6].copy_({name}[:, :6] * 0 + 7 if {name}.shape[1] == 6 else {name}[:2])",
            name,
            [],
            Rounding.NONE,
        )
    assert draft.body == [f"v1, v2, v3, = {name}.chunk(3, 1)", f"v4 = {name} + 1", f"v5 = {name}.sum(0) * 60"]
    assert not bool((draft.of(name) == 7).any())


def test_numbers_are_exact_if_they_are_so_in_both_calls() -> None:
    for more, exact in ((0, True), (2, False)):
        draft = Draft(lambda strategy: None, gradients=False, more=more)
        name = draft.input(Input("int64", (3,), values="index", bound=1))
        draft.add(f"torch.full_like({name}, 80, dtype=float32).sum(0)", [name], Rounding.SUMS)
        assert draft.is_exact("v1") is exact


def test_only_sizes_without_a_meaning_of_their_own_grow() -> None:
    part = Input("int64", (1, 2, 3, 17), values="ends", bound=5, seed=4)
    assert part.grown(2) == Input("int64", (1, 2, 5, 19), values="ends", bound=7, seed=4)
    assert part.grown(0) == part


def test_half_of_the_ends_are_the_last() -> None:
    index = Input("int64", (400,), values="ends", bound=9).make()
    assert index.min() >= 0 and index.max() == 8
    assert 150 < int((index == 8).sum()) < 300


@pytest.mark.parametrize("within", [torch.int64, torch.int32])
def test_what_the_cpu_does_not_compute_is_computed_in_a_wider_dtype(within: torch.dtype) -> None:
    x = torch.tensor([0.5, 0.0, -1.0])
    with pytest.raises(NotImplementedError):  # when this fails, the CPU has it
        torch.cumprod(x, 0, dtype=torch.bool)
    assert wider(torch.cumprod, x, 0, dtype=torch.bool, within=within).tolist() == [True, False, False]
    seen = []
    wider(
        lambda tensor, *others, **options: seen.append((tensor.dtype, others, options)),
        x.to("meta"),
        0,
        dtype=torch.bool,
        within=within,
    )
    assert seen == [(torch.float32, (0,), {"dtype": torch.bool})]
