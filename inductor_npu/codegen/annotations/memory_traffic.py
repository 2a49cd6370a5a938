"""Counts the bytes of device memory that a launch reads and writes, for the comment beside the launch.

The count follows Inductor's (`BaseSchedulerNode.get_read_write_buffer_accesses`): an element counts once per loop nest
that accesses it, up to the whole tensor, and masked elements count as well. A value that the kernel stores and loads
again never leaves the chip; it does not count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import sympy
from torch._inductor.codegen.common import KernelArgs, RemovedArg
from torch._inductor.dependencies import MemoryDep, StarDep
from torch._inductor.virtualized import V

from inductor_npu.codegen.annotations.launch_comments import write_traffic
from inductor_npu.codegen.index.size_terms import hint


def comment_of(nodes: Sequence[Any], args: KernelArgs, dropped: Iterable[str]) -> str:
    """Returns the comment that states what a launch reads and writes.

    `nodes` are the scheduler's nodes of a kernel whose source is complete, `args` its arguments, and `dropped` the
    buffers that exist only inside the kernel.
    """
    read, written = _bytes_read(nodes, args), _bytes_written(nodes, args, dropped)
    symbols = sorted({*read.free_symbols, *written.free_symbols}, key=str)
    if not symbols or any(V.graph.sizevars.shape_env.is_unbacked_symint(symbol) for symbol in symbols):
        return write_traffic(read, written)
    sizes = ", ".join(f"{symbol} = {hint(symbol)}" for symbol in symbols)
    return write_traffic(hint(read), hint(written), f"{read} and {written} where {sizes}")


def _bytes_read(nodes: Sequence[Any], args: Any) -> sympy.Expr:
    """Bytes that are loaded from memory, without values that an earlier loop of the same kernel computed."""
    computed = {dep.name for node in nodes for dep in node.read_writes.writes}
    deps = [dep for node in nodes for dep in node.read_writes.reads if dep.name not in computed]
    addressed = {_real(dep.name) for dep in deps if isinstance(dep, MemoryDep)}

    def is_read(dep: Any) -> bool:
        name = _real(dep.name)
        if isinstance(dep, MemoryDep):
            return name in args.input_buffers or _is_written(name, args)
        # A whole tensor, as that of a search; or nothing but the order of two loops.
        return isinstance(dep, StarDep) and name in args.input_buffers and name not in addressed

    return _bytes(deps, is_read)


def _bytes_written(nodes: Sequence[Any], args: KernelArgs, dropped: Iterable[str]) -> sympy.Expr:
    """Bytes that the kernel stores. A value that only the kernel's own loops use is not stored, even if its buffer is
    an argument.
    """
    deps = [dep for node in nodes for dep in node.read_writes.writes]
    graph = V.graph
    gone = {*dropped, *graph.removed_buffers, *graph.inplaced_to_remove}
    return _bytes(
        deps,
        lambda dep: (
            isinstance(dep, (MemoryDep, StarDep)) and dep.name not in gone and _is_written(_real(dep.name), args)
        ),
    )


def _is_written(name: str, args: Any) -> bool:
    """Whether tensor `name` is an argument that the kernel writes."""
    arguments = (args.output_buffers.get(name), args.inplace_buffers.get(name))
    return any(argument is not None and not isinstance(argument, RemovedArg) for argument in arguments)


def _real(name: str) -> str:
    """The name of the tensor in memory; Inductor renames a tensor at each mutation."""
    return V.graph.scheduler.mutation_real_name.get(name, name)


def _bytes(deps: Iterable[Any], counts: Callable[[Any], bool]) -> sympy.Expr:
    by_tensor: dict[str, list[Any]] = {}
    for dep in deps:
        if counts(dep):
            by_tensor.setdefault(_real(dep.name), []).append(dep)
    return sympy.Add(*(V.graph.get_dtype(name).itemsize * _elements(name, of) for name, of in by_tensor.items()))


def _elements(name: str, deps: Sequence[Any]) -> sympy.Expr:
    """Elements of tensor `name` that `deps` access."""
    whole = sympy.sympify(V.graph.get_numel(name))
    if any(isinstance(dep, StarDep) for dep in deps):
        return whole
    distinct = {(dep.index, dep.size): dep for dep in deps}
    if len(distinct) > 1:  # loops name their axes as they like
        normal = (dep.normalize() for dep in distinct.values())
        distinct = {(dep.index, dep.size): dep for dep in normal}
    return sympy.Min(sympy.Add(*map(_accessed, distinct.values())), whole)


def _accessed(dep: MemoryDep) -> sympy.Expr:
    """Distinct elements that `dep` accesses: the product of the lengths of the loops that its index depends on."""
    if dep.is_indirect():
        return sympy.Mul(*dep.size)
    return sympy.sympify(dep.get_numel())
