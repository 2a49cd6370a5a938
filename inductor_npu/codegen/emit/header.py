"""What makes an emitted kernel readable: a header that says what it computes and how it is tiled.

    @triton.jit
    # aten.native_layer_norm
    def kernel(in_ptr0, ...):
        # tile [x, r0]: x 32 of 50; r0 all of 768 (in 1024)
        # about 132 of 192 KiB of Unified Buffer; moves 193 KiB a tile
        # 2 tiles, on 2 of 40 programs

The lines inside follow from the kernel's own text and tile, so that equal kernels of different layers stay one kernel.
The operators above `def` are those of the first layer that has the kernel; Triton does not read that line, and its
caches do not know it. The user's source lines differ from layer to layer and with every edit of the program: they
stand in the generated module beside each launch.
"""

from __future__ import annotations

import ast
import functools
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sympy
from torch._inductor.codecache import code_hash, get_path
from torch._inductor.codegen.common import IndentedBuffer

from inductor_npu import providers
from inductor_npu.codegen.analysis.axes import Axis
from inductor_npu.codegen.annotations import provenance
from inductor_npu.codegen.emit.dead_code import TEXTS, dotted, tidied
from inductor_npu.tiling.plan import PlannedAccess, Work, footprint

if TYPE_CHECKING:
    from inductor_npu.codegen.emit.npu_kernel import NpuKernel

_MOST_OPERATORS = 12
_JIT = "@triton.jit\n"
_ACCESSES = ("tl.load", "tl.store", "tl.atomic_add")
_KIB = 1024


def listed(kernel: NpuKernel, body: IndentedBuffer) -> IndentedBuffer:
    """The statements of `kernel`, tidied, below a header. Lines that were left open are settled: call it when no load
    or store of the kernel will change any more.
    """

    def dtype_of(name: str) -> Any:
        value = kernel.cse.varname_map.get(name.lstrip("_"))  # "_tmp0" accumulates what "tmp0" was made for
        return None if value is None else value.dtype

    text = tidied(body.getvalue(), dtype_of)
    result = IndentedBuffer()
    for line in header(kernel, text):
        result.writeline(f"# {line}")
    result.splice(text)
    return result


def header(kernel: NpuKernel, text: str) -> list[str]:
    """The lines of the header of a kernel with the statements `text`."""
    steps = [
        _Step(statement, tuple(_access(kernel, *access) for access in statement.accesses))
        for statement in _statements(text)
    ]
    room = providers.current_target().unified_buffer
    fills = footprint(kernel.tile.blocks, _work(kernel, steps))
    line = f"about {_kib(fills)} of {_kib(room)} KiB of Unified Buffer; {_moved(kernel, steps)}"
    return [*_tile(kernel), line, *_tiles(kernel)]


# -- the tile ---------------------------------------------------------------------------------------------------------


def _tile(kernel: NpuKernel) -> list[str]:
    plan = kernel.tile
    axes = [axis for axis in kernel.axis_of.values() if kernel.features.is_reduction() or not axis.is_reduction]
    symbols = ", ".join(str(kernel.axis_of[prefix].symbol) for prefix in plan.order)
    parts = [_part(kernel, kernel.axis_of[prefix]) for prefix in plan.order]
    lines = [f"tile [{symbols}]: {'; '.join(parts) or 'one element'}"]
    if single := [axis for axis in axes if axis.prefix not in plan.blocks]:
        lines.append("one index at a time: " + ", ".join(f"{axis.symbol} of {_length(axis)}" for axis in single))
    if loops := [str(kernel.axis_of[prefix].symbol) for prefix in plan.loops]:
        lines.append("in a loop inside the tile: " + ", ".join(loops))
    return lines


def _part(kernel: NpuKernel, axis: Axis) -> str:
    block = kernel.tile.blocks[axis.prefix]
    if not kernel.is_whole(axis.prefix):
        return f"{axis.symbol} {block} of {_length(axis)}"
    return f"{axis.symbol} all of {_length(axis)}" + (f" (in {block})" if _length(axis) != str(block) else "")


def _length(axis: Axis) -> str:
    return str(axis.length) if _is_known(axis) else f"{axis.prefix}numel"


def _is_known(axis: Axis) -> bool:
    return isinstance(axis.length, (int, sympy.Integer))


def _tiles(kernel: NpuKernel) -> list[str]:
    """How many tiles there are, and programs for them; nothing where that depends on sizes at run time."""
    if not all(_is_known(axis) for axis in kernel.axes.pointwise):
        return []
    blocks, cores = kernel.tile.blocks, providers.current_target().vector_cores
    tiles = math.prod(-(-int(axis.length) // blocks.get(axis.prefix, 1)) for axis in kernel.axes.pointwise)
    return [f"{tiles} {'tile' if tiles == 1 else 'tiles'}, on {min(tiles, cores)} of {cores} programs"]


# -- what a tile needs ------------------------------------------------------------------------------------------------


@dataclass(eq=False)
class _Loop:
    """A loop over the values of the variable `target`. Two loops over one variable differ."""

    target: str


@dataclass(eq=False)
class _Statement:
    """One statement without others in it: the loops around it, the outermost first; the names that it reads and
    assigns; the function and the names in the address of each access to memory.
    """

    loops: tuple[_Loop, ...]
    reads: frozenset[str]
    assigned: tuple[str, ...]
    accesses: tuple[tuple[str, tuple[str, ...]], ...]


@dataclass(eq=False)
class _Step:
    """A statement of a kernel, and what it moves."""

    statement: _Statement
    accesses: tuple[PlannedAccess, ...]


@functools.lru_cache(TEXTS)
def _statements(text: str) -> tuple[_Statement, ...]:
    return tuple(_flat(ast.parse(text).body, ()))


def _flat(nodes: Sequence[ast.stmt], loops: tuple[_Loop, ...]) -> Iterator[_Statement]:
    for node in nodes:
        if isinstance(node, ast.For):
            yield from _flat(node.body, (*loops, _Loop(ast.unparse(node.target))))
            continue
        if isinstance(node, ast.If):
            yield from _flat(node.body, loops)
            continue
        parts = list(ast.walk(node))
        names = [part for part in parts if isinstance(part, ast.Name)]
        reads = frozenset(name.id for name in names if isinstance(name.ctx, ast.Load))
        assigned = tuple(name.id for name in names if isinstance(name.ctx, ast.Store))
        calls = [(dotted(part.func), part.args) for part in parts if isinstance(part, ast.Call)]
        accesses = tuple((function, _names(args[0])) for function, args in calls if function in _ACCESSES)
        yield _Statement(loops, reads, assigned, accesses)


def _names(address: ast.expr) -> tuple[str, ...]:
    return tuple(part.id for part in ast.walk(address) if isinstance(part, ast.Name))


def _access(kernel: NpuKernel, function: str, names: Sequence[str]) -> PlannedAccess:
    pointer = next(name for name in names if _type_of(kernel, name).startswith("*"))
    is_store = function != "tl.load"
    axes, stretch, span = _axes_of(kernel, names), 0, 0
    for name in names:
        if name in kernel.gatherer.spans:
            gathered, stretch = kernel.gatherer.spans[name]
            axes |= frozenset(gathered)
        span = kernel.indexed.spans_by_index.get(name, span)
    return PlannedAccess(
        _item_size(kernel, pointer), axes, None, frozenset(), is_store, stretch=stretch, span=span, rows=axes
    )


def _axes_of(kernel: NpuKernel, names: Sequence[str]) -> frozenset[str]:
    """The axes of the tile along which something made of `names` differs."""
    values = [kernel.cse.varname_map[name].shape for name in names if name in kernel.cse.varname_map]
    own = [axis for axis in kernel.tile.order if str(kernel.axis_of[axis].symbol) in names]
    return frozenset({*own, *(axis for shape in values for axis in kernel.axes_of(shape))})


def _type_of(kernel: NpuKernel, argument: str) -> str:
    """The type of an argument, or of another name for it, in Triton's spelling; empty if it is none."""
    return kernel.triton_meta["signature"].get(dict(kernel.args.aliases()).get(argument, argument), "")


def _item_size(kernel: NpuKernel, pointer: str) -> int:
    """Bytes of what a pointer points to, from its type: *fp32, *i1, *fp8e4nv."""
    kind = _type_of(kernel, pointer).removeprefix("*")
    if "fp8" in kind:
        return 1
    return max(1, int(kind.lstrip("bfiup")) // 8)


def _work(kernel: NpuKernel, steps: Sequence[_Step]) -> Work:
    """The accesses and the values alive at each step, as the planner counts them."""
    statements = [step.statement for step in steps]
    born = {name: place for place, statement in reversed([*enumerate(statements)]) for name in statement.assigned}
    last: dict[str, int] = {}
    for place, statement in enumerate(statements):
        for name in statement.reads & born.keys():
            # A value from before a loop is there until the loop ends.
            around = [loop for loop in statement.loops if loop not in statements[born[name]].loops]
            last[name] = place if not around else max(p for p, s in enumerate(statements) if around[0] in s.loops)
    live = [Counter[tuple[frozenset[str], int]]() for _ in steps]
    for name, place in last.items():
        value = kernel.cse.varname_map.get(name.lstrip("_"))
        if value is None:
            continue  # an index or a mask: a vector along one axis
        size = max(4, value.dtype.itemsize if value.dtype is not None else 4)
        for moment in live[born[name] : place + 1]:
            moment[frozenset(kernel.axes_of(value.shape)), size] += 1
    return Work([], [access for step in steps for access in step.accesses], live, frozenset())


def _moved(kernel: NpuKernel, steps: Sequence[_Step]) -> str:
    """Bytes between memory and Unified Buffer, without what masks leave out at the end of an axis."""
    known = all(_is_known(kernel.axis_of[prefix]) for prefix in kernel.tile.loops)
    moved = sum(
        access.item_size * _items(kernel, access, step.statement.loops) for step in steps for access in step.accesses
    )
    return f"moves {_kib(moved)} KiB a tile" + ("" if known else " and round of its loops")


def _items(kernel: NpuKernel, access: PlannedAccess, loops: Sequence[_Loop]) -> int:
    """Items that one tile moves by `access`: all rounds of loops of known length, one round of others."""
    items = 1
    for prefix, axis in kernel.axis_of.items():
        block = kernel.tile.blocks.get(prefix, 1)
        rounds = any(loop.target in (f"{prefix}offset", str(axis.symbol)) for loop in loops)
        if not _is_known(axis):
            items *= block if prefix in access.axes else 1
        elif prefix in access.axes:
            items *= int(axis.length) if rounds else min(block, int(axis.length))
        elif rounds:
            items *= -(-int(axis.length) // block)
    return items * max(1, access.stretch, access.span)


def _kib(size: int) -> str:
    return f"{size / _KIB:.0f}" if size >= 10 * _KIB else f"{size / _KIB:.2g}"


# -- where it comes from ----------------------------------------------------------------------------------------------


def with_operators(source: str, schedule: Sequence[Any]) -> tuple[str, str]:
    """`source`, the module of a kernel made of `schedule`, with its operators above its function; and the path at which
    Inductor will write it.

    Called once Inductor has looked for an equal kernel: operators alone make no other kernel.
    """
    operators = provenance.operators_of(schedule)
    more = [f"and {len(operators) - _MOST_OPERATORS} more"] if len(operators) > _MOST_OPERATORS else []
    line = ", ".join([*operators[:_MOST_OPERATORS], *more]) or "no operator of the graph"
    before, jit, after = source.rpartition(_JIT)
    source = f"{before}{jit}# {line}\n{after}" if jit else source
    return source, get_path(code_hash(source.strip()), "py")[2]


def source_lines(schedule: Sequence[Any]) -> list[str]:
    """The user's lines that led to `schedule`: `model.py:12: y = F.gelu(x)`. Files have no folder, which differs from
    machine to machine.
    """
    return [*map(_told, provenance.lines_of(schedule))]


def source_lines_of_call(node: Any) -> list[str]:
    """The user's lines that led to a call of an operator, Inductor's ExternKernel `node`."""
    return [*map(_told, provenance.lines_of_call(node))]


def _told(line: provenance.Line) -> str:
    return f"{Path(line.file).name}:{line.line}: {line.text}".rstrip("\\ ")
