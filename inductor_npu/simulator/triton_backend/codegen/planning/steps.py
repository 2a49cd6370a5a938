"""The parts of a plan: steps, most of which are loop nests, each for a group of roots."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...ttir.ir import Op, Value
from ..analysis.operations import ATOMICS, is_pair, is_tensor
from ..forms.scratch import Buffer
from ..forms.types import shape_of


@dataclass(eq=False, slots=True)
class OpRoot:
    """A loop nest is for `op`: a tt.store, tt.atomic_*, tt.reduce (which removes `axis`) or tt.scan (along `axis`)."""

    op: Op
    shape: tuple[int, ...]
    axis: int | None = None

    @property
    def operands(self) -> list[Value]:
        return self.op.operands

    @property
    def is_effect(self) -> bool:
        """Whether it writes memory of the device."""
        return self.op.name != "tt.reduce"


@dataclass(eq=False, slots=True)
class KeptRoot:
    """A loop nest is for keeping `value` in scratch: in `buffer`, or in a new one, where the value is from then on, and
    which is `row_major` if that is said.
    """

    value: Value
    shape: tuple[int, ...]
    buffer: Buffer | None = None
    row_major: bool = False

    @property
    def axis(self) -> None:
        """It has none to reduce."""
        return None

    @property
    def operands(self) -> list[Value]:
        return [self.value]


Root = OpRoot | KeptRoot


@dataclass(eq=False, slots=True)
class Group:
    """Roots that share a loop nest over `shape`, of which some reduce `axis`; `vector_axis` is the axis whose
    neighbours fill the lanes.
    """

    roots: list[Root]
    shape: tuple[int, ...]
    axis: int | None = None
    vector_axis: int = 0


@dataclass(eq=False, slots=True)
class OpStep:
    """An operation on scalars, with regions, or with code of its own. `positions`: where in the block it was."""

    op: Op
    positions: list[int]


@dataclass(eq=False, slots=True)
class NestStep:
    """A loop nest. `positions`: where in the block its roots were."""

    group: Group
    positions: list[int] = field(default_factory=list)


Step = OpStep | NestStep


def root_of(op: Op) -> OpRoot | None:
    """What a loop nest is for where that is `op`; None for an operation that is written otherwise."""
    is_root = (op.name == "tt.reduce" and not is_pair(op)) or op.name in ATOMICS or op.name == "tt.store"
    if is_root and is_tensor(op.operands[0]):
        axis = op.attrs["axis"] if op.name == "tt.reduce" else None
        return OpRoot(op, shape_of(op.operands[0].type), axis)
    return None
