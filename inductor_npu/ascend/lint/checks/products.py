"""Dots: what becomes wrong, is refused or is slow of products on the cube core. Of all severities, as most concern the
way of an operand or an accumulator.
"""

from __future__ import annotations

from collections.abc import Iterator

from inductor_npu.providers import DEFAULT_TARGET
from inductor_npu.simulator.triton_backend.ttir.ir import Op, TensorType, Value
from inductor_npu.target import get_target

from ..forms import UNKNOWN, element
from ..kernel import Kernel
from ..products import Operand, Products
from .hit import Hit, hit

_CHIP = get_target(DEFAULT_TARGET)
_LOWER = frozenset({"sge", "sgt"})
_LONG_ROW = 65536  # elements from row to row: more is one transfer a row
_VIEWS = frozenset({"tt.trans", "tt.reshape", "tt.expand_dims", "tt.broadcast", "tt.splat"})
_DESCRIPTOR = frozenset({"tt.descriptor_load", "tt.descriptor_store"})
_VECTOR_WORK = ("arith.", "math.", "tt.fp_to_fp", "tt.extern_elementwise")


def check(kernel: Kernel) -> Iterator[Hit]:
    products = Products(kernel)
    if not products.dots:
        return
    yield from _stores(kernel, products)
    for operand in products.operands():
        if operand.load is not None:
            yield from _address(kernel, operand, operand.load)
            yield from _mask(kernel, operand, operand.load)
    yield from _accumulators(kernel, products)
    yield from _prologues(products)
    yield from _epilogues(kernel, products)
    for op in kernel.named(*_DESCRIPTOR):
        yield hit("N112", f"{op.name.removeprefix('tt.descriptor_')} through a tensor descriptor", op)
    for dot in products.dots:
        if dot.attrs.get("inputPrecision") == "hf32":
            yield hit("N512", "a product in hf32", dot)


def _stores(kernel: Kernel, products: Products) -> Iterator[Hit]:
    """What leaves L0C in a wrong way."""
    for op in kernel.named("tt.atomic_rmw"):
        if any(products.is_accumulator(value) for value in products.made_of(op.operands[1])):
            yield hit("N109", f"atomic {op.attrs['rmw_op']} of a product", op)
    for op in kernel.named("arith.trunci"):
        if products.is_accumulator(op.operands[0]) and element(op.result) == "i8":
            yield hit("N110", f"{op.operands[0].type} to int8", op)


# Operands


def _address(kernel: Kernel, operand: Operand, load: Op) -> Iterator[Hit]:
    form, shape = kernel.forms[load.operands[0]], _shape(load.result)
    what = f"operand {operand.side}, a tile of {'x'.join(map(str, shape))},"
    remainder = [step for step in form.irregular if step.why == "remainder"]
    if remainder:
        yield hit("N317", f"{what} has a remainder in its address", remainder[0].op)
    if form.irregular or len(shape) < 2:
        return
    inner, outer = form.steps[-1], form.steps[-2]
    if shape[-1] > 1 and inner is UNKNOWN and outer != 1:
        yield hit("N508", f"{what} has an inner stride that is known only at run time", load)
    elif shape[-1] > 1 and inner != 1:
        yield hit("N318", f"{what} is contiguous along another axis than its last", load)
    elif isinstance(outer, int) and outer >= _LONG_ROW and shape[-2] > 1:
        yield hit("N515", f"{what} has rows that are {outer} elements apart", load)


def _mask(kernel: Kernel, operand: Operand, load: Op) -> Iterator[Hit]:
    rank = len(_shape(load.result))
    if len(load.operands) < 2 or rank < 2:
        return
    safe = rank - 2 if operand.side == "a" and not operand.transposed else None  # rows of A: all are multiplied
    for axes, comparison in _comparisons(kernel, load.operands[1], None):
        if str(comparison.attrs["predicate"]) in _LOWER and axes - {safe}:
            axis = "K" if operand.axis_of_k() + rank in axes else "columns"
            yield hit("N111", f"the mask of operand {operand.side} has a lower bound on {axis}", load)


def _comparisons(kernel: Kernel, mask: Value, axes: set[int] | None) -> Iterator[tuple[set[int], Op]]:
    """The comparisons of an index with a bound in `mask`, each with the axes of the whole tile that it is about."""
    op = mask.owner
    if op is None:
        return
    if op.name == "arith.andi":
        for part in op.operands:
            yield from _comparisons(kernel, part, axes)
        return
    own = axes
    if axes is None:
        own = {axis for axis, step in enumerate(kernel.forms[mask].steps) if step != 0}
    if op.name in _VIEWS:
        yield from _comparisons(kernel, op.operands[0], own)
    elif op.name == "arith.cmpi" and kernel.forms[op.operands[1]].is_uniform and own:
        yield own, op


def _prologues(products: Products) -> Iterator[Hit]:
    """Arithmetic on an operand inside of the loop that sums: it goes to L1 by way of memory, in each turn again. Where
    a tile of the other operand is one square high there is nothing more of it, as a rule, and the turns are no more.
    """
    for operand in products.operands():
        met = _shape(operand.dot.result)[-2 if operand.side == "b" else -1]
        if operand.load is not None or met <= _CHIP.fractal_rows:
            continue
        made_of = products.made_of(operand.value)
        if any(products.is_accumulator(value) for value in made_of):
            continue
        for _, inside in products.loops():
            if operand.dot not in inside:
                continue
            owners = {value.owner for value in made_of if value.owner in inside}
            loads = any(op is not None and op.name == "tt.load" for op in owners)
            work = operand.value.owner
            while work is not None and work.name in _VIEWS:
                work = work.operands[0].owner
            if loads and work is not None and work.name.startswith(_VECTOR_WORK):
                yield hit("N511", f"operand {operand.side} is computed ({work.name}) in the loop", work)
                break


# Accumulators


def _accumulators(kernel: Kernel, products: Products) -> Iterator[Hit]:
    cube = products.cube
    assert cube is not None, "there are dots"
    dots = {result for dot in products.dots for result in dot.results}
    for loop in kernel.named("scf.for"):
        body = loop.regions[0]
        for start, argument, end in zip(loop.operands[3:], body.arguments[1:], body.ops[-1].operands):
            adds = end in dots and end.owner is not None and end.owner.operands[2] is argument
            if adds and kernel.forms[start].is_data and not products.is_accumulator(start):
                is_row = start.owner is not None and start.owner.name == "tt.broadcast"
                yield hit("N209" if is_row else "N510", "a loop that sums products begins with data", loop)
    for branch in kernel.named("scf.if"):
        if any(value in dots for region in branch.regions if region.ops for value in region.ops[-1].operands):
            yield hit("N516", "a product goes through a branch", branch)
    for loop in kernel.named("scf.while"):
        if any(op in products.dots for op in loop.regions[1].walk()):
            yield hit("N509", "a while loop around a product", loop)
    for dot in products.dots:
        row = dot.operands[2] if len(dot.operands) > 2 else None
        shape = _shape(dot.result)
        if row is not None and cube.is_row_of_bias(row) and shape[-1] * 4 > _CHIP.bias_table:
            yield hit("N113", f"a bias of {shape[-1]} elements", dot)


def _epilogues(kernel: Kernel, products: Products) -> Iterator[Hit]:
    cube = products.cube
    assert cube is not None, "there are dots"
    for value in cube.read:
        rows = _shape(value)[-2:-1]
        if rows and rows[0] > 1 and rows[0] % _CHIP.vector_cores_per_cube and value.owner is not None:
            yield hit("N513", f"vector work on a product of {value.type}", value.owner)
    for op in kernel.named("tt.store"):
        value = op.operands[1]
        is_work = value not in cube.elsewhere and not products.is_accumulator(value)
        if len(op.operands) == 2 and is_work and any(made in cube.read for made in products.made_of(value)):
            yield hit("N517", f"a store of {value.type}", op)
    for op in kernel.named("arith.select"):
        condition = op.operands[0].owner
        if condition is None or condition.name != "arith.cmpf" or not kernel.forms[condition.operands[1]].is_uniform:
            continue
        chosen = condition.operands[0]
        is_clipped = chosen in op.operands[1:] and any(kernel.forms[other].is_uniform for other in op.operands[1:])
        if is_clipped and any(products.is_accumulator(value) for value in products.made_of(chosen)):
            yield hit("N514", f"a product of {chosen.type} is clipped by tl.where", op)


def _shape(value: Value) -> tuple[int, ...]:
    return value.type.shape if isinstance(value.type, TensorType) else ()
