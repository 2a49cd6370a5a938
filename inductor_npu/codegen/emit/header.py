"""The header of an emitted kernel, which says what it computes and how it is tiled.

    @triton.jit
    # aten.native_layer_norm
    def kernel(in_ptr0, ...):
        # tile [x, r0]: x 32 of 50; r0 all of 768 (in 1024)
        # about 132 of 192 KiB of Unified Buffer; moves 193 KiB a tile
        # 2 tiles, on 2 of 40 programs

The lines inside follow from the kernel's plan, so that equal kernels of different layers stay one kernel. The operators
above `def` are those of the first layer that has the kernel. Triton does not read that line, and its caches ignore it.
The user's source lines differ from layer to layer and with every edit of the program: they stand in the generated
module beside each launch.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import sympy
from torch._inductor.codecache import code_hash, get_path
from torch._inductor.codegen.common import IndentedBuffer

from inductor_npu import providers
from inductor_npu.codegen.analysis.axes import Axis
from inductor_npu.codegen.analysis.kernel_plan import KernelPlan
from inductor_npu.codegen.annotations import provenance
from inductor_npu.codegen.emit.statements import Statements
from inductor_npu.tiling import cube
from inductor_npu.tiling.plan import AccessSummary

_MOST_OPERATORS = 12
_JIT = "@triton.jit\n"
_KIB = 1024


def with_header(plan: KernelPlan, body: Statements, parts: int | None = None) -> IndentedBuffer:
    """Returns the statements of a kernel that are needed, below a header. `parts`: in how many its tiles are taken
    together, each by one program (column_sums.py).

    Lines that were left open are fixed here: call it when no load or store of the kernel will change any more.
    """
    body.keep_needed()
    result = IndentedBuffer()
    for line in header(plan, parts):
        result.writeline(f"# {line}")
    result.splice(body.getvalue())
    return result


def header(plan: KernelPlan, parts: int | None = None) -> list[str]:
    """The lines of the header of a kernel with this plan, without `#`."""
    return [*_tile(plan), f"{_filled(plan)}; {_moved(plan)}", *_tiles(plan, parts)]


def _filled(plan: KernelPlan) -> str:
    """What a tile takes of the memory on chip."""
    chip = providers.current_target()
    unified_buffer = f"about {_kib(plan.filled)} of {_kib(chip.unified_buffer)} KiB of Unified Buffer"
    if plan.contraction is None:
        return unified_buffer
    work, tile = plan.contraction.work, plan.contraction.tile
    parts = [
        f"{_kib(cube.l0c_bytes(work, tile, chip))} of {_kib(chip.l0c)} KiB of L0C",
        f"twice {_kib(cube.l1_bytes(work, tile, chip))} of {_kib(chip.l1)} KiB of L1",
    ]
    return ", ".join([*parts, unified_buffer] if work.is_mixed or work.converted else parts)


# -- the tile ---------------------------------------------------------------------------------------------------------


def _tile(plan: KernelPlan) -> list[str]:
    tile, axis_of = plan.tile, plan.tiled.axis_of
    symbols = ", ".join(str(axis_of[prefix].symbol) for prefix in tile.order)
    parts = [_part(plan, axis_of[prefix]) for prefix in tile.order]
    lines = [f"tile [{symbols}]: {'; '.join(parts) or 'one element'}"]
    if single := [axis for axis in plan.axes.all if axis.prefix not in tile.blocks]:
        lines.append("one index at a time: " + ", ".join(f"{axis.symbol} of {_length(axis)}" for axis in single))
    if loops := [str(axis_of[prefix].symbol) for prefix in tile.loops]:
        lines.append("in a loop inside the tile: " + ", ".join(loops))
    return lines


def _part(plan: KernelPlan, axis: Axis) -> str:
    block = plan.tile.blocks[axis.prefix]
    if not plan.tiled.is_whole(axis.prefix):
        return f"{axis.symbol} {block} of {_length(axis)}"
    return f"{axis.symbol} all of {_length(axis)}" + (f" (in {block})" if _length(axis) != str(block) else "")


def _length(axis: Axis) -> str:
    return str(axis.length) if _is_known(axis) else f"{axis.prefix}numel"


def _is_known(axis: Axis) -> bool:
    return isinstance(axis.length, (int, sympy.Integer))


def _tiles(plan: KernelPlan, parts: int | None) -> list[str]:
    """How many tiles there are, in parts if they are taken together, and programs for them, unless that depends on
    dynamic sizes; and the order of a product's tiles, if it is not the usual one.
    """
    lines = []
    if all(_is_known(axis) for axis in plan.axes.pointwise):
        cores = plan.cores
        tiles = math.prod(-(-int(axis.length) // plan.tiled.block(axis.prefix)) for axis in plan.axes.pointwise)
        together = f" in {parts} parts" if parts else ""
        programs = min(parts or tiles, cores)
        lines.append(f"{tiles} {'tile' if tiles == 1 else 'tiles'}{together}, on {programs} of {cores} programs")
    if groups := plan.tile_groups:
        along = plan.tiled.axis_of[groups.along].symbol
        lines.append(f"in groups of {groups.size} tiles along {along}, whose operand stays in L2")
    return lines


# -- what a tile moves ------------------------------------------------------------------------------------------------


def _moved(plan: KernelPlan) -> str:
    """The bytes that a tile moves between memory and Unified Buffer, without masked lanes: over all iterations of loops
    of static length, for one iteration of others.
    """
    known = all(_is_known(plan.tiled.axis_of[prefix]) for prefix in plan.tile.loops)
    moved = sum(access.item_size * _items(plan, access) for access in plan.work.accesses)
    return f"moves {_kib(moved)} KiB a tile" + ("" if known else " and round of its loops")


def _items(plan: KernelPlan, access: AccessSummary) -> int:
    """Elements that one tile moves by `access`."""
    items = max(1, access.stretch, access.range_length)
    for prefix in access.rows if access.range_length else access.axes:
        axis, block = plan.tiled.axis_of[prefix], plan.tiled.block(prefix)
        is_looped = prefix in plan.tile.loops
        if _is_known(axis):
            items *= int(axis.length) if is_looped else min(block, int(axis.length))
        else:
            items *= block
    is_repeated = not access.is_store and not access.axes.isdisjoint(plan.tile.loops)
    return items * (max(1, access.passes) if is_repeated else 1)


def _kib(size: int) -> str:
    return f"{size / _KIB:.0f}" if size >= 10 * _KIB else f"{size / _KIB:.2g}"


# -- where it comes from ----------------------------------------------------------------------------------------------


def with_operators(source: str, schedule: Sequence[Any]) -> tuple[str, str]:
    """Returns `source`, the module of a kernel made of `schedule`, with its operators above its function; and the path
    at which Inductor will write it.

    Call it after Inductor has looked for an equal kernel: operators alone do not make another kernel.
    """
    operators = provenance.operators_of(schedule)
    more = [f"and {len(operators) - _MOST_OPERATORS} more"] if len(operators) > _MOST_OPERATORS else []
    line = ", ".join([*operators[:_MOST_OPERATORS], *more]) or "no operator of the graph"
    before, jit, after = source.rpartition(_JIT)
    source = f"{before}{jit}# {line}\n{after}" if jit else source
    return source, get_path(code_hash(source.strip()), "py")[2]


def source_lines(schedule: Sequence[Any]) -> list[str]:
    """The user's source lines that led to `schedule`: `model.py:12: y = F.gelu(x)`. File names have no folder, which
    differs between machines.
    """
    return [*map(_told, provenance.lines_of(schedule))]


def source_lines_of_call(node: Any) -> list[str]:
    """The user's source lines that led to the call of an operator, Inductor's ExternKernel `node`."""
    return [*map(_told, provenance.lines_of_call(node))]


def _told(line: provenance.Line) -> str:
    return f"{Path(line.file).name}:{line.line}: {line.text}".rstrip("\\ ")
