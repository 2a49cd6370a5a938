"""Operations that are written on their own, most of them with their operands in scratch."""

from __future__ import annotations

import math

from ...host_functions import SORT
from ...ttir.ir import Op
from ..analysis.operations import PACK
from ..emit.context import CodegenContext
from ..errors import UnsupportedOperation
from ..evaluation.evaluator import scalar_of
from ..forms.lane import Uniform
from ..forms.scratch import Buffer, held, row_major
from ..forms.types import element_bytes, element_of, shape_of
from ..nests.materialise import keep
from ..planning.steps import KeptRoot
from .debugging import emit_assert, emit_print
from .dot import emit_dot
from .histogram import emit_histogram
from .pack import emit_pack
from .scan import emit_scan
from .sort_rows import emit_sort


def emit_standalone(context: CodegenContext, op: Op) -> None:
    """Writes one of the operations in `operations.STANDALONE`."""
    handler = _HANDLERS.get(op.name)
    if handler is None:
        raise UnsupportedOperation(op, "this operation is not supported")
    handler(context, op)


def _cat(context: CodegenContext, op: Op) -> None:
    """One after the other in a new tile."""
    shape, element = shape_of(op.result.type), element_of(op.result.type)
    whole = context.scratch.allocate(shape, element, row_major(shape))
    offset = whole.offset
    for operand in op.operands:
        part = shape_of(operand.type)
        keep(context, [KeptRoot(operand, part, Buffer(offset, part, row_major(part), element))])
        offset += math.prod(part) * element_bytes(held(element))
    context.places[op.result] = whole


def _unsplat(context: CodegenContext, op: Op) -> None:
    context.places[op.result] = Uniform(scalar_of(context, op.operands[0]))


_HANDLERS = {
    SORT: emit_sort,
    PACK: emit_pack,
    "cf.assert": emit_assert,
    "tt.assert": emit_assert,
    "tt.cat": _cat,
    "tt.dot": emit_dot,
    "tt.histogram": emit_histogram,
    "tt.print": emit_print,
    "tt.scan": emit_scan,
    "tt.unsplat": _unsplat,
}
