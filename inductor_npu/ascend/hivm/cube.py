"""What the final IR shows of a kernel with a cube core's part: workspace, buffers, how the vector cores share its rows;
and what the compiler accepts of such kernels, but compiles to something else.

======= =========================================================================================================
WC      wrong code: a product that is added atomically, requantised or cut at the wrong end
NS      rows not shared: both vector cores do everything, and one of them stores
NB      operands with one buffer in a loop: loads and products take turns
NW      a workspace for one tile in a loop: cube core and vector cores take turns
======= =========================================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from .ir import Function, MemRefType, Module, Operation, Value
from .verdict import Finding

_WORKSPACE = re.compile(r"_infer_workspace_shape_function[^\n]*\n(?:[^\n]*\n)?[^\n]*?constant (\d+)")
_VIEWS = frozenset({"memref.cast", "memref.collapse_shape", "memref.expand_shape", "memref.memory_space_cast"})
_TILE_RANK = 2
_FRACTAL_RANK = 4  # of a tile in L1: columns / 16, rows / 16, 16, 16
_ROWS, _COLUMNS = (1, 2), (0, 3)  # of these axes


@dataclass(frozen=True)
class CubeFacts:
    """Of a kernel with a cube core's part. `vectors`: whether vector cores work, too; then a workspace of
    `workspace_bytes` of device memory a core, which holds each tile `workspace_depth` times, and whether they share
    the rows. `l1_doubled` and `l0c_doubled` count tiles with two buffers.
    """

    vectors: bool
    workspace_bytes: int
    workspace_depth: int
    rows_shared: bool | None
    l1_doubled: int
    l0c_doubled: int


def cube_facts(module: Module, hivm: str) -> CubeFacts | None:
    """None for a kernel that has no cube core's part."""
    cube = next((function for function in module.functions if function.core == "AIC"), None)
    if cube is None:
        return None
    vector = next((function for function in module.functions if function.core == "AIV"), None)
    workspace = _WORKSPACE.search(hivm)
    doubled = [
        operation.results[0].type.space
        for operation in cube.body.walk()
        if operation.name == "arith.select" and isinstance(operation.results[0].type, MemRefType)
    ]
    return CubeFacts(
        vectors=vector is not None,
        workspace_bytes=int(workspace.group(1)) if workspace else 0,
        workspace_depth=_workspace_depth(cube),
        rows_shared=None if vector is None else _shares_rows(vector),
        l1_doubled=doubled.count("cbuf"),
        l0c_doubled=doubled.count("cc"),
    )


def cube_findings(module: Module, facts: CubeFacts) -> Iterator[Finding]:
    """What is wrong, and what costs more than it has to."""
    for function in module.functions:
        if function.core == "AIC":
            yield from _wrong_products(function)
            if facts.l1_doubled == 0 and any(True for _ in _calls(function, "nd2nz", in_loop=True)):
                yield Finding("NB", "operands have one buffer in L1: loads and products take turns", None)
            if facts.workspace_depth == 1 and any(True for _ in _calls(function, "fixpipe", in_loop=True)):
                what = "the workspace has room for one tile: cube core and vector cores take turns"
                yield Finding("NW", what, None)
        elif facts.rows_shared is False:
            yield from _unguarded_atomics(function)
            yield Finding("NS", "rows are not shared: both vector cores do everything, and one of them stores", None)


def _workspace_depth(function: Function) -> int:
    """How many tiles of a kind the workspace holds: the first axis of its views that have one more than a tile. 0
    without a workspace.
    """
    workspace = {argument for argument, kind in zip(function.arguments, function.argument_kinds) if kind == "workspace"}
    depths = []
    for operation in function.body.walk():
        if operation.name == "memref.view" and operation.operands[0] in workspace:
            type_ = operation.results[0].type
            assert isinstance(type_, MemRefType), "a view is of memory"
            depths.append(type_.shape[0] or 1 if len(type_.shape) > _TILE_RANK else 1)
    return min(depths, default=0)


def _calls(function: Function, prefix: str, in_loop: bool = False) -> Iterator[Operation]:
    regions = [function.body]
    if in_loop:
        regions = [
            region
            for operation in function.body.walk()
            if operation.name in ("scf.for", "scf.while")
            for region in operation.regions
        ]
    for region in regions:
        for operation in region.walk():
            if operation.name == "func.call" and str(operation.attributes["callee"]).startswith(prefix):
                yield operation


def _where(operation: Operation) -> str:
    return f"{operation.location}: " if operation.location else ""


# ---- rows ----


def _shares_rows(function: Function) -> bool:
    """Whether the number of the vector core is in what it computes, not just in whether it stores."""
    users: dict[Value, list[Operation]] = {}
    for operation in function.body.walk():
        for value in operation.operands:
            users.setdefault(value, []).append(operation)
    waiting = [
        result
        for operation in function.body.walk()
        if operation.name == "hivm.hir.get_sub_block_idx"
        for result in operation.results
    ]
    while waiting:
        for user in users.get(waiting.pop(), []):
            if user.name in ("arith.index_cast", "arith.trunci", "arith.extsi"):
                waiting += user.results
            elif user.name not in ("arith.cmpi", "scf.if"):
                return True
    return False


def _unguarded_atomics(function: Function) -> Iterator[Finding]:
    """Stores that add, of a function that never asks which of the two vector cores it is on."""
    if any(operation.name == "hivm.hir.get_sub_block_idx" for operation in function.body.walk()):
        return
    for operation in _calls(function, "store_ubuf_to_gm"):
        kind = _constant(operation.operands[2]) if len(operation.operands) > 2 else 0
        if kind:
            what = "an atomic operation on a product is done by both vector cores, twice in all"
            yield Finding("WC", f"{_where(operation)}{what}", None)


# ---- products ----


def _wrong_products(function: Function) -> Iterator[Finding]:
    for operation in _calls(function, "fixpipe_"):
        target = operation.operands[1].type
        if isinstance(target, MemRefType) and target.space == "cbuf":
            what = "a product goes to L1, and what is added atomically in its place was never written"
            yield Finding("WC", f"{_where(operation)}{what}", None)
        if "int32_t_to_int8_t" in str(operation.attributes["callee"]):
            what = "an int32 product is requantised to int8, not truncated"
            yield Finding("WC", f"{_where(operation)}{what}", None)
    products = list(_calls(function, "mma_tile"))
    for operation in _calls(function, "nd2nz"):
        yield from _moved(operation, products)


def _moved(load: Operation, products: list[Operation]) -> Iterator[Finding]:
    """A tile that begins inside of its buffer: the product takes as many steps from the buffer's start."""
    buffer, offsets = _place(load.operands[1])
    if offsets is None:
        return
    rows = any(_is_moved(offsets[axis]) for axis in _ROWS)
    columns = any(_is_moved(offsets[axis]) for axis in _COLUMNS)
    for product in products:
        name = str(product.attributes["callee"])
        for side, value in zip("ab", product.operands[:2]):
            if _place(value)[0] is not buffer:
                continue
            transposed = f"_t{side}" in name
            along_k, along_other = (columns, rows) if (side == "a") != transposed else (rows, columns)
            _, steps, width = product.operands[3:6]
            wrong_k = along_k and _constant(steps) is None
            # All rows of the left operand are multiplied, wherever they are.
            is_row = side == "a" and not transposed
            wrong_other = along_other and not is_row and (side == "a" or _constant(width) is None)
            if wrong_k or wrong_other:
                bound = "K" if wrong_k else "its columns"
                what = f"operand {side} has a lower bound on {bound}: what lies behind the bounds' distance is lost"
                yield Finding("WC", f"{_where(load)}{what}", None)
                return


def _place(value: Value) -> tuple[Value, list[object] | None]:
    """The buffer in L1 that `value` is a view of, and where in its fractals the view begins."""
    offsets: list[object] | None = None
    while value.owner is not None:
        owner = value.owner
        if owner.name == "memref.subview":
            begin = list(owner.attributes["offsets"])  # type: ignore[call-overload]
            if offsets is None and len(begin) >= _FRACTAL_RANK:
                offsets = begin[-_FRACTAL_RANK:]
        elif owner.name not in _VIEWS:
            break
        value = owner.operands[0]
    return value, offsets


def _is_moved(offset: object) -> bool:
    return (_constant(offset) if isinstance(offset, Value) else offset) != 0


def _constant(value: Value) -> int | None:
    owner = value.owner
    if owner is None or owner.name != "arith.constant":
        return None
    number = owner.attributes["value"]
    return int(number) if isinstance(number, int) else None
