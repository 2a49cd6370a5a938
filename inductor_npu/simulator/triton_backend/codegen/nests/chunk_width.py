"""How many lanes a chunk of a loop nest has."""

from __future__ import annotations

from ...ttir.ir import Value
from ..analysis.operations import ATOMICS, is_tensor, is_virtual
from ..emit.context import CodegenContext
from ..forms.scratch import Buffer
from ..forms.types import BITS, element_of, is_float
from ..planning.gather_patterns import chunks_in_a_period
from ..planning.steps import Group, KeptRoot, Root
from .axis_runs import AxisRun


def chunk_width(context: CodegenContext, group: Group, run: AxisRun | None) -> tuple[int, int]:
    """Lanes of a chunk along `run`: a register of the widest number that the nest computes with; and how many of these
    natural widths make one chunk. 0 lanes: one element at a time.
    """
    if run is None or any(_goes_one_by_one(context, group, root) for root in group.roots):
        return 0, 1
    widest = 1
    for element in _elements_in(context, group):
        widest = max(widest, BITS[element] // 8)
    lanes = max(2, min(context.options.vector_bits // 8 // widest, 32))
    lanes = min(lanes, 1 << (run.extent.bit_length() - 1))
    if len(group.shape) > 1 or group.axis is not None:
        return lanes, 1
    chunks = chunks_in_a_period(group.roots, context.facts.constants, context.places, run.extent, lanes)
    return lanes * chunks, chunks


def _goes_one_by_one(context: CodegenContext, group: Group, root: Root) -> bool:
    """Whether it is an atomic, unless these are plain and its addresses are neighbours."""
    if isinstance(root, KeptRoot) or root.op.name not in ATOMICS:
        return False
    return not context.plain_atomics or context.facts.strides.along(root.operands[0], group.vector_axis) != 1


def _elements_in(context: CodegenContext, group: Group) -> set[str]:
    """The element types of the numbers that a nest loads, stores and computes with; index arithmetic left out."""
    found: set[str] = set()
    seen: set[Value] = set()
    stack = [value for root in group.roots for value in root.operands]
    for root in group.roots:
        if isinstance(root, KeptRoot) or root.op.name in ("tt.reduce", "tt.scan"):
            found.update(element_of(v.type) for v in root.operands)
        else:
            found.add(element_of(root.operands[1].type))
    while stack:
        value = stack.pop()
        if value in seen or not is_tensor(value) or context.facts.constants.is_known(value):
            continue
        seen.add(value)
        element = element_of(value.type)
        kept = context.places.get(value)
        loaded = value.owner is not None and value.owner.name == "tt.load"
        if is_float(element) or loaded or isinstance(kept, Buffer):
            found.add(element)
        if kept is None and value.owner is not None and is_virtual(value.owner):
            stack += value.owner.operands
    return {e for e in found if BITS[e] > 1 and e != "ptr"} or {"i8"}
