"""What counts as right for a model, by the rule of opinfo/comparison.py, in three steps; the first that holds decides:

1. near to eager on the CPU, within torch.testing's tolerances;
2. as near to eager in float64 as the rule allows, of which eager's own distance is the measure; a tensor with NaN or
   infinity in float64 where eager's has a number is no measure (a mask of the least float32, which a model knows by
   comparing), and eager itself stands for it;
3. the same, where an element may move besides by what it moves when every weight and input of floating-point dtype
   changes in its last bits: of a model in which a rounding decides (a router's choice, an argmax), one run of eager
   says nothing about what rounding does.

Tensors are compared in units of their own largest element, so that a small gradient is no less compared than a large
one; a gradient that is small beside the others' is noise and compared in a thousandth of the largest, and a result that
cancels to zero in units of 1. Of random results means are compared, with what other draws of eager move them by.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import nn

from opinfo.comparison import difference, plain, shape_difference, statistical_difference
from world.case import Built
from world.results import Results, moved

ROUNDINGS = (4, 24)  # the more only if the fewer do not show it
DRAWS, MOST_MOVES = 8, 5.0
LAST_BITS = 2.0  # of weights and inputs, in units of the last place
_NOISE = 1e-3  # of the largest gradient


@dataclass
class Judge:
    """Judges results of one case. `run(built, seed)`: calls a model in eager on the CPU, twice in a row, and gives both
    results; `seed` is that of random numbers.
    """

    built: Built
    run: Callable[[Built, int], tuple[Results, Results]]
    random: bool = False
    _eager: tuple[Results, Results] | None = None
    _wide: tuple[Results, Results] | None = None
    _moved: list[tuple[Results, Results]] = field(default_factory=list)
    _drawn: list[tuple[Results, Results]] = field(default_factory=list)
    how: str = "eager"  # the step that decided last: eager, float64, rounding; or statistics

    @property
    def eager(self) -> tuple[Results, Results]:
        if self._eager is None:
            self._eager = self.run(self.built, 0)
        return self._eager

    def why_wrong(self, ours: Results, which: int = 0) -> str:
        """Why the results of the call with number `which` (0, 1) are not right, "" if they are."""
        eager = self.eager[which]
        if list(ours) != list(eager):
            odd = sorted(set(ours) ^ set(eager)) or ["another order"]
            return f"other results: {', '.join(odd[:3])}"
        if self.random:
            self.how = "statistics"
            return _first(ours, lambda name: self._why_no_draw(name, ours[name], which))
        scales = _scales(eager)
        self.how = "eager"
        if not _why(ours, eager, scales):
            return ""
        self.how = "float64"
        wide = self._widened(which)
        scales |= dict.fromkeys(_zeros(eager, wide), 1.0)
        why = _why(ours, eager, scales, wide)
        if why and not _first(ours, lambda name: shape_difference(ours[name], eager[name])):
            self.how = "rounding"
            for runs in ROUNDINGS:
                why = why and _why(ours, eager, scales, wide, self._motion(which, runs))
        return why

    def _why_no_draw(self, name: str, ours: torch.Tensor, which: int) -> str:
        """Why this tensor of a random result is no other draw. Elements that depend on each other, as those of a
        gradient, have a mean that moves by more than they let expect: then eager's own draws are the measure.
        """
        eager = self.eager[which][name]
        why = statistical_difference(ours, eager)
        if not why or not eager.is_floating_point() or shape_difference(ours, eager):
            return why
        if not self._drawn:
            self._drawn = [self.run(self.built, seed) for seed in range(2, 2 + DRAWS)]
        means = [float(one.double().mean()) for one in (ours, eager, *(run[which][name] for run in self._drawn))]
        moves = max(abs(mean - means[1]) for mean in means[2:])
        return "" if abs(means[0] - means[1]) <= MOST_MOVES * moves else why

    def is_near(self, ours: Results) -> bool:
        """Whether results of a first call are near to eager's, by the first step alone."""
        eager = self.eager[0]
        return list(ours) == list(eager) and not _why(ours, eager, _scales(eager))

    def _widened(self, which: int) -> Results | None:
        """Results in float64; None where the model only runs in its own dtypes."""
        if self._wide is None:
            before = torch.get_default_dtype()
            torch.set_default_dtype(torch.float64)  # of what the model makes on its way
            try:
                self._wide = self.run(_changed(self.built, torch.float64), 0)
            except (RuntimeError, TypeError, ValueError):
                self._wide = ({}, {})
            finally:
                torch.set_default_dtype(before)
        wide, eager = self._wide[which], self.eager[which]
        if not all(name in wide and wide[name].shape == eager[name].shape for name in eager):
            return None
        return {name: wide[name] if _is_measure(wide[name], eager[name]) else eager[name] for name in eager}

    def _motion(self, which: int, runs: int) -> Results:
        """By how much elements move in so many runs whose weights and inputs round otherwise: each by its own largest
        motion, and by what the elements of its tensor move on average, since few runs do not show each element's own.
        """
        self._moved += [self.run(_rounded(self.built, seed), 0) for seed in range(len(self._moved), runs)]
        eager = self.eager[which]
        motions = {}
        for name, tensor in eager.items():
            others = [run[which][name] for run in self._moved if run[which].get(name, tensor).shape == tensor.shape]
            wide = plain(tensor).to(torch.complex128 if tensor.is_complex() else torch.float64)
            motion = torch.stack([(plain(one).to(wide.dtype) - wide).abs() for one in others or [plain(tensor)]])
            motion = motion.nan_to_num()
            is_integer = not (tensor.is_floating_point() or tensor.is_complex())
            motions[name] = motion.amax(0) + (0 if is_integer or not motion.numel() else motion.mean())
        return motions


def _why(
    ours: Results, eager: Results, scales: dict[str, float], wide: Results | None = None, motion: Results | None = None
) -> str:
    def one(name: str) -> str:
        if why := shape_difference(ours[name], eager[name]):
            return why
        if not eager[name].numel():
            return ""
        found = [each and plain(each[name]) for each in (ours, eager, wide)]
        if eager[name].is_floating_point() or eager[name].is_complex():
            found = [each if each is None else each / scales[name] for each in found]
            step = motion and motion[name] / scales[name]
            return difference(*found, moved=step)
        if motion is not None:  # an integer may change where a rounding changes it
            found[0] = torch.where(motion[name] > 0, found[1], found[0])
        return difference(*found)

    return _first(ours, one)


def _is_measure(wide: torch.Tensor, eager: torch.Tensor) -> bool:
    """Whether `wide` is a number wherever `eager` is one."""
    return bool((plain(wide).isfinite() | ~plain(eager).isfinite()).all())


def _first(results: Results, why: Callable[[str], str]) -> str:
    return next((f"{name}: {text}" for name in results if (text := why(name))), "")


def _scales(results: Results) -> dict[str, float]:
    """The largest finite magnitude of each tensor, of a gradient at least a share of the largest gradient's."""
    largest = {name: _largest(tensor) for name, tensor in results.items()}
    noise = _NOISE * max((value for name, value in largest.items() if name.startswith("grad ")), default=0.0)
    return {name: max(value, noise if name.startswith("grad ") else 0.0) or 1.0 for name, value in largest.items()}


def _zeros(eager: Results, wide: Results | None) -> list[str]:
    """The results that are 0 but for rounding: in eager on the CPU no digit is that of float64. No unit is theirs."""
    if wide is None:
        return []
    names = [name for name in eager if eager[name].is_floating_point() and not name.startswith("grad ")]
    pairs = {name: (plain(eager[name]).double(), plain(wide[name]).double()) for name in names}
    return [name for name, (one, other) in pairs.items() if (one - other).norm() > one.norm() / 2]


def _largest(tensor: torch.Tensor) -> float:
    if not tensor.is_floating_point() or not tensor.numel():
        return 0.0
    return float(tensor.double().nan_to_num(0.0, 0.0, 0.0).abs().max())


def _changed(built: Built, dtype: torch.dtype) -> Built:
    model = copy.deepcopy(built.model).to(dtype)
    return Built(model, *moved((built.args, built.kwargs), dtype=dtype))


def _rounded(built: Built, seed: int) -> Built:
    """The case with each weight and input changed in its last bits, by chance."""
    generator = torch.Generator().manual_seed(seed)

    def rounded(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        step = LAST_BITS * torch.finfo(tensor.dtype).eps
        return tensor * (1 + step * (torch.rand(tensor.shape, generator=generator, dtype=tensor.dtype) - 0.5) * 2)

    model: nn.Module = copy.deepcopy(built.model)
    with torch.no_grad():
        for weight in model.parameters():
            weight.copy_(rounded(weight))
    args, kwargs = torch.utils._pytree.tree_map_only(torch.Tensor, rounded, (built.args, built.kwargs))
    return Built(model, args, kwargs)
