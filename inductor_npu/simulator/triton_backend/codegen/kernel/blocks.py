"""Blocks of a kernel: its steps, one after the other."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ...ttir.ir import Block, Op
from ..analysis.operations import REGIONS, STANDALONE
from ..emit.atomics import emit_atomic
from ..emit.context import CodegenContext
from ..errors import UnsupportedOperation
from ..evaluation.evaluator import scalar_of
from ..forms.lane import Uniform
from ..forms.types import element_of
from ..nests.materialise import write_nest
from ..planning.plan import plan_block
from ..planning.steps import KeptRoot, NestStep
from ..variants.standalone import emit_standalone
from .control_flow import emit_region


def write_block(
    context: CodegenContext, block: Block, tail: Sequence[KeptRoot] = (), separate_tail: bool = False
) -> None:
    """Writes a block, then the roots in `tail`; its terminator is the caller's to write."""
    ops = list(block.ops)
    if ops and ops[-1].name in ("scf.yield", "scf.condition", "tt.return"):
        ops.pop()
    for step in plan_block(context.facts, ops, tail, separate_tail):
        if isinstance(step, NestStep):
            write_nest(context, step.group)
        elif step.op.name in REGIONS:
            _region(context, step.op)
        elif step.op.name in STANDALONE:
            emit_standalone(context, step.op)
        else:
            _scalar_operation(context, step.op)


def _region(context: CodegenContext, op: Op) -> None:
    """An operation with regions. Where values are inside of it does not hold after it: it may not have run."""
    context.loop_depth += 1
    outside = dict(context.places)
    emit_region(context, op, functools.partial(write_block, context))
    results = {r: context.places[r] for r in op.results}
    context.places = {**outside, **results}
    context.loop_depth -= 1


def _scalar_operation(context: CodegenContext, op: Op) -> None:
    """An operation on scalars."""
    name = op.name
    if name == "tt.get_program_id":
        context.places[op.result] = Uniform(context.program_ids[op.attrs["axis"]])
    elif name == "tt.get_num_programs":
        context.places[op.result] = Uniform(context.grid[op.attrs["axis"]])
    elif name == "tt.load":
        pointer, *rest = (context.lane(o) for o in op.operands)
        mask, other = [*rest, None, None][:2]
        context.places[op.result] = context.memory.device_load(op, pointer, mask, other, element_of(op.result.type), 0)
    elif name == "tt.store":
        pointer, value, *rest = (context.lane(o) for o in op.operands)
        mask = rest[0] if rest else None
        context.memory.device_store(op, pointer, value, mask, element_of(op.operands[1].type), 0)
    elif name in ("tt.atomic_rmw", "tt.atomic_cas"):
        context.places[op.result] = Uniform(emit_atomic(context, op, [context.lane(o) for o in op.operands]))
    elif name in ("tt.make_tensor_ptr", "tt.advance"):
        raise UnsupportedOperation(op, "block pointers must be rewritten to plain pointers before code generation")
    elif name == "llvm.intr.assume":
        return
    elif not op.results:
        raise UnsupportedOperation(op, "this operation is not supported")
    else:
        lane = context.elementwise.emit(op, [context.lane(o) for o in op.operands], 0)
        context.places.update(zip(op.results, lane if isinstance(lane, tuple) else (lane,)))
        if _counts_programs(op):
            scalar_of(context, op.result).known(0, context.options.grid_limit - 1)


def _counts_programs(op: Op) -> bool:
    """Whether this is the product of a program id and the number of programs along another axis: less than there are
    programs in all.
    """
    if op.name != "arith.muli":
        return False
    owners = {o.owner.name: o.owner for o in op.operands if o.owner is not None}
    program, count = owners.get("tt.get_program_id"), owners.get("tt.get_num_programs")
    return program is not None and count is not None and program.attrs["axis"] != count.attrs["axis"]
