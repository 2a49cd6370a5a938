"""Loop nests according to the plan, and tiles that are kept in scratch for their users."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ttir.ir import Value
from ..emit.context import CodegenContext
from ..forms.scratch import Buffer, row_major
from ..forms.types import element_of, shape_of
from ..planning.plan import plan_block
from ..planning.steps import Group, KeptRoot, NestStep, Root
from ..planning.vector_axis import vector_axis
from .reduction_nest import ReductionNest
from .root_nest import RootNest
from .transpose import transpose_crosswise_tiles


def write_nest(context: CodegenContext, group: Group) -> None:
    """Writes the loop nest of a group, but for values that lie already where they are to be written."""
    group.roots = [root for root in group.roots if not _is_in_place(context, root)]
    if not group.roots:
        return
    context.work += math.prod(group.shape) * 8 ** min(context.loop_depth, 2)
    group.vector_axis = vector_axis(group, context.places, context.facts.strides)
    transpose_crosswise_tiles(context, group)
    nest = RootNest(context, group) if group.axis is None else ReductionNest(context, group, group.axis)
    nest.emit()


def _is_in_place(context: CodegenContext, root: Root) -> bool:
    """Whether a value to be kept in a buffer lies in it already."""
    return isinstance(root, KeptRoot) and root.buffer is not None and context.places.get(root.value) is root.buffer


def keep(context: CodegenContext, roots: Sequence[KeptRoot]) -> None:
    """Writes loop nests that put values into scratch."""
    for step in plan_block(context.facts, [], roots) if roots else ():
        assert isinstance(step, NestStep), "roots alone are written by loop nests"
        write_nest(context, step.group)


def materialised(context: CodegenContext, value: Value) -> Buffer:
    """`value` in scratch, row-major."""
    home = context.places.get(value)
    shape = shape_of(value.type)
    if isinstance(home, Buffer) and home.strides == row_major(shape):
        return home
    buffer = context.scratch.allocate(shape, element_of(value.type), row_major(shape))
    keep(context, [KeptRoot(value, shape, buffer)])
    context.places[value] = buffer
    return buffer
