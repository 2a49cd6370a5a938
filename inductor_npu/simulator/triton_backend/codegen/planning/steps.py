"""What a plan is made of: steps, of which most are loop nests, each for a group of roots."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ttir.ir import Op, Value
from ..analysis.operations import ATOMICS, is_pair, is_tensor
from ..forms.scratch import Buffer
from ..forms.types import shape_of


@dataclass(eq=False, slots=True)
class Root:
    """What a loop nest is for: `op` (tt.store, tt.atomic_*, tt.reduce), or keeping `value` in scratch (op is None)."""

    op: Op | None
    value: Value | None = None
    buffer: Buffer | None = None  # where to write `value`; None: a new one, where the value is from then on
    shape: tuple[int, ...] = ()
    axis: int | None = None  # the axis that a reduction removes
    row_major: bool = False  # whether a new buffer must be

    @property
    def operands(self) -> list[Value]:
        return [self.value] if self.op is None else self.op.operands


@dataclass(eq=False, slots=True)
class Group:
    """Roots that share a loop nest over `shape`; `vector_axis` is the axis whose neighbours fill the lanes."""

    roots: list[Root] = field(default_factory=list)
    shape: tuple[int, ...] = ()
    axis: int | None = None
    vector_axis: int = 0


@dataclass(eq=False, slots=True)
class Step:
    """One of: an operation on scalars or with regions (`op`), or a loop nest (`group`)."""

    op: Op | None = None
    group: Group | None = None
    positions: list[int] = field(default_factory=list)


def root_of(op: Op) -> Root | None:
    """What a loop nest is for where that is `op`; None for an operation that is written otherwise."""
    is_root = (op.name == "tt.reduce" and not is_pair(op)) or op.name in ATOMICS or op.name == "tt.store"
    if is_root and is_tensor(op.operands[0]):
        axis = op.attrs["axis"] if op.name == "tt.reduce" else None
        return Root(op, shape=shape_of(op.operands[0].type), axis=axis)
    return None
