"""Passes over TTIR as data: inlining into one function, and dead code elimination."""

from __future__ import annotations

from ..host_functions import SORT, sort_of
from .ascend_operations import write_out
from .copying import copy_operations
from .ir import Block, Function, Module, Op, Value

# Operations that do something besides making their results. Anything else may go when its results are not used; so do
# barriers, because one thread runs a program in order.
EFFECTS = frozenset(
    {
        "tt.store",
        "tt.atomic_rmw",
        "tt.atomic_cas",
        "tt.print",
        "tt.assert",
        "cf.assert",
        "tt.return",
        "tt.call",
        "tt.descriptor_store",
        "tt.descriptor_scatter",
        "tt.descriptor_reduce",
        "scf.yield",
        "scf.condition",
        "tt.reduce.return",
        "tt.scan.return",
        "tt.map_elementwise.return",
        "scf.while",  # it may not end
    }
)


class RecursionNotSupportedError(ValueError):
    """Functions that call each other in a cycle cannot be inlined."""


def simplify(module: Module, with_host_functions: bool = False) -> None:
    """Make the kernel the module's only function, in operations of every Triton, free of unused pure ones. Works in
    place. `with_host_functions`: calls of what the host's runtime has a function for become operations of that name
    (`host_functions.py`).

    Raises RecursionNotSupportedError.
    """
    if with_host_functions:
        for op in module.kernel.body.walk():
            _call_host_function(op)
    inline_calls(module)
    write_out(module.kernel.body)
    remove_dead_operations(module.kernel.body)


def _call_host_function(op: Op) -> None:
    sort = sort_of(str(op.attrs["callee"])) if op.name == "tt.call" else None
    if sort is not None:
        op.name, op.attrs = SORT, {"sort": sort}


def inline_calls(module: Module) -> None:
    """Replace every `tt.call` in the kernel by the callee's operations, also where Triton was told not to inline."""
    kernel = module.kernel
    if len(module.functions) > 1:
        _inline_block(kernel.body, module, (kernel.name,))
        module.functions = {kernel.name: kernel}


def _inline_block(block: Block, module: Module, callers: tuple[str, ...]) -> None:
    replaced: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in block.ops:
        op.operands = [replaced.get(value, value) for value in op.operands]
        for region in op.regions:
            _substitute(region, replaced)
            _inline_block(region, module, callers)
        if op.name != "tt.call":
            ops.append(op)
            continue
        callee = module.functions[str(op.attrs["callee"])]
        if callee.name in callers:
            raise RecursionNotSupportedError(f"function {callee.name} calls itself, at {op.line}")
        body = _copy_of_body(callee, op)
        _inline_block(body, module, (*callers, callee.name))
        *inlined, ending = body.ops
        ops += inlined
        replaced.update(zip(op.results, ending.operands, strict=True))
    block.ops = ops


def _substitute(block: Block, replaced: dict[Value, Value]) -> None:
    if replaced:
        for op in block.walk():
            op.operands = [replaced.get(value, value) for value in op.operands]


def _copy_of_body(function: Function, call: Op) -> Block:
    values = dict(zip(function.body.arguments, call.operands, strict=True))
    # The user's line is the outermost one of a chain of calls.
    return Block([], copy_operations(function.body.ops, values, call.line))


def remove_dead_operations(block: Block) -> None:
    """Drop operations without effect whose results nobody uses."""
    _sweep(block, set())


def _sweep(block: Block, used: set[Value]) -> None:
    """Backwards, so that every use is seen before what it uses; extends `used`."""
    kept: list[Op] = []
    for op in reversed(block.ops):
        if used.isdisjoint(op.results) and _is_removable(op):
            continue
        for region in reversed(op.regions):
            _sweep(region, used)
        used.update(op.operands)
        kept.append(op)
    block.ops = kept[::-1]


def _is_removable(op: Op) -> bool:
    if op.name in EFFECTS or op.attrs.get("isVolatile"):
        return False
    if op.name == "tt.elementwise_inline_asm" and not op.attrs.get("pure", False):
        return False
    return all(_ends_region(inner) or _is_removable(inner) for region in op.regions for inner in region.ops)


def _ends_region(op: Op) -> bool:
    return op.name.endswith((".yield", ".return"))
