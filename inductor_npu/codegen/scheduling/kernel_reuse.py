"""Kernel reuse: loops that repeat earlier ones of the same graph, as a second layer repeats the first, get their
kernel.

Planning and writing a kernel takes tens of milliseconds, recognising its loops one or two. Loops are the same if they
do the same operations with the same constants at the same indices of buffers that are alike (layout, dtype, alignment,
whether they outlive the kernel, which are written in place of which). Buffers are numbered in the order in which the
loops use them. Loops that this key cannot describe are written again: those with loaded indices, scans or mutated
buffers. An ahead-of-time worker (ahead_of_time.py) sends its kernels for such loops, too; this process recognises them
by name.
"""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import sympy
import torch
from torch._inductor import ir
from torch._inductor.codegen.common import InplacedBuffer, Kernel, KernelArgs
from torch._inductor.codegen.simd_kernel_features import NodeScheduleMarker, SIMDKernelFeatures
from torch._inductor.codegen.triton import should_unwrap_unspec_arg
from torch._inductor.scheduler import SchedulerNode
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from inductor_npu.codegen.analysis.kernel_plan import KernelPlan
from inductor_npu.codegen.analysis.live_buffers import names_of_unstored
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.emit.uncounted import Uncounted

# Operations that have the name of a buffer among their arguments (self, name, ...).
_WITH_A_BUFFER = frozenset({"load", "store", "store_reduction", "load_seed"})
# Types of arguments that can be compared, beside numbers.
_PLAIN = (str, torch.dtype, torch.device, sympy.Basic, type(None))
_SETS_OF_BUFFERS = ("must_keep_buffers", "store_buffer_names", "removed_buffers", "inplaced_to_remove", "mutations")
# The attributes that writing sets on a kernel, and that a launch needs.
_MADE_BY_WRITING = (
    "args",
    "cycles_of_product",
    "inductor_meta",
    "inplace_update_buffers",
    "inside_reduction",
    "source",
    "triton_meta",
    *_SETS_OF_BUFFERS,
)


class _NotTold(Exception):
    """These loops contain something that the key does not describe."""


@dataclass(frozen=True)
class LoopsKey:
    """The loops of one kernel: equal keys have the same source. `buffers` are in the order of their numbers."""

    key: Hashable
    buffers: tuple[str, ...]


@dataclass
class ReusableKernels:
    """The kernels of a graph that are written, by their loops."""

    _kernels: dict[Hashable, tuple[NpuKernel | PackedKernel, tuple[str, ...]]] = field(default_factory=dict)

    def keep(self, loops: LoopsKey, kernel: NpuKernel) -> bool:
        """Keeps `kernel`, which was written for `loops`, for others like them; returns whether none was kept before."""
        if kernel.args.workspace_args or loops.key in self._kernels:
            return False
        self._kernels[loops.key] = kernel, loops.buffers
        return True

    def add(self, loops: LoopsKey, kernel: PackedKernel) -> None:
        """Keeps the kernel that another process has written for `loops`."""
        self._kernels.setdefault(loops.key, (kernel, loops.buffers))

    def find(self, loops: LoopsKey, features: SIMDKernelFeatures) -> NpuKernel | None:
        """Returns the kernel of earlier loops that equal these of `features`, with the buffers of these; None if there
        is none.
        """
        if loops.key not in self._kernels:
            return None
        kernel, buffers = self._kernels[loops.key]
        is_same = not buffers  # known by their names: the same loops, asked for again
        if isinstance(kernel, PackedKernel):
            kernel = kernel.unpacked(features)
            self._kernels[loops.key] = kernel, buffers
            is_same = buffers == loops.buffers
        if is_same:
            _count()
            return kernel
        return _with_buffers(kernel, dict(zip(buffers, loops.buffers, strict=True)), features)


class _UnpackedKernel(NpuKernel, Uncounted):
    """A kernel that another process has written: Inductor counts it where it is used."""


def _count() -> None:
    """Has Inductor's metrics count a kernel that is reused, by an empty one that is counted in its place."""
    Kernel()


@dataclass(frozen=True)
class PackedKernel:
    """A written kernel as one process sends it to another: its plan, and the attributes that writing has set."""

    plan: KernelPlan
    made: dict[str, Any]

    @classmethod
    def of(cls, kernel: NpuKernel) -> PackedKernel:
        """Packs `kernel`, which is written."""
        return cls(replace(kernel.plan, calls=()), {name: getattr(kernel, name) for name in _MADE_BY_WRITING})

    def unpacked(self, features: SIMDKernelFeatures) -> NpuKernel:
        """The kernel, for the loops of `features`, which equal its own."""
        lengths = {axis.prefix: axis.length for axis in self.plan.axes.all}
        kernel = _UnpackedKernel(lengths, features=features, plan=self.plan)
        kernel.__dict__.update(self.made)
        return kernel


def key_of_loops(features: SIMDKernelFeatures) -> LoopsKey:
    """Returns the key of the loops of `features`; call it before a kernel is written for them, which changes them.

    Loops that cannot be compared equal only themselves, in another process that compiles the same graph.
    """
    numbers: dict[str, int] = {}
    try:
        schedule, buffers = _described(features.node_schedule, numbers)
        in_place = _written_in_place(features, numbers)
    except _NotTold:
        return _by_name(features)
    lifetimes = _lifetimes(features)
    key = (features.numel, features.reduction_numel, schedule, in_place, buffers, lifetimes)
    return LoopsKey(key, tuple(numbers))


def key_of_plan(nodes: Sequence[SchedulerNode]) -> Hashable | None:
    """Returns what decides the plan of a kernel of the loops `nodes`, in this order: layers that repeat each other have
    equal ones. None for loops that cannot be compared.
    """
    try:
        return _described(nodes, {})
    except _NotTold:
        return None


def _by_name(features: SIMDKernelFeatures) -> LoopsKey:
    """The loops of `features` by their names, and what else decides their kernel."""
    names = tuple(entry if not hasattr(entry, "_body") else entry.get_name() for entry in features.node_schedule)
    accessed = sorted({dep.name for node in features.scheduler_nodes() for dep in node.read_writes.reads_and_writes()})
    removed = tuple(name for name in accessed if name in V.graph.removed_buffers)
    return LoopsKey((names, tuple(_decided_in_place(features).items()), removed, _lifetimes(features)), ())


# -- loops ------------------------------------------------------------------------------------------------------------


def _described(schedule: Sequence[Any], numbers: dict[str, int]) -> tuple[Hashable, Hashable]:
    """The entries of a schedule, and the buffers that they use, which get `numbers`."""
    entries = tuple(_entry(entry, numbers) for entry in schedule)
    return entries, tuple(_buffer(name) for name in numbers)


def _entry(entry: Any, numbers: dict[str, int]) -> Hashable:
    """One entry of a schedule: loops, or where those over reduced axes begin or end."""
    if not hasattr(entry, "_body"):
        return entry
    if getattr(entry.node, "get_config_patches", dict)():
        raise _NotTold
    body = entry._body
    if body.indirect_vars or any(not name.startswith(("get_index", "masked_subblock")) for name in body.submodules):
        raise _NotTold
    blocks = [("", body.root_block), *body.subblocks.items()]
    return (
        _lengths(entry.get_ranges()),
        _lengths(body.sizes),
        tuple(body.var_ranges),
        tuple(body.indexing_exprs.items()),
        getattr(getattr(entry.node, "data", None), "reduction_hint", None),
        tuple((name, _operations(block.graph, numbers)) for name, block in blocks),
    )


def _lengths(lengths: Any) -> tuple[tuple[sympy.Expr, ...], ...]:
    return tuple(tuple(map(sympy.sympify, group)) for group in lengths)


def _operations(graph: torch.fx.Graph, numbers: dict[str, int]) -> Hashable:
    places: dict[torch.fx.Node, int] = {}
    operations = []
    for node in graph.nodes:
        arguments = list(node.args)
        named: Hashable = None
        if node.op == "call_method" and node.target in _WITH_A_BUFFER:
            named = numbers.setdefault(arguments.pop(1), len(numbers))
        rest = tuple(_argument(argument, places) for argument in (*arguments, *node.kwargs.values()))
        operations.append((node.op, node.target, named, rest, tuple(node.kwargs)))
        places[node] = len(places)
    return tuple(operations)


def _argument(argument: Any, places: Mapping[torch.fx.Node, int]) -> Hashable:
    """A key that equals only its like: 1, 1.0 and True differ, and so do 0.0 and -0.0; a NaN equals itself."""
    if isinstance(argument, torch.fx.Node):
        return ("value", places[argument])
    if isinstance(argument, (tuple, list)):
        return tuple(_argument(part, places) for part in argument)
    if isinstance(argument, float):
        return (float, argument.hex())
    if isinstance(argument, (bool, int)):
        return (type(argument), argument)
    if not isinstance(argument, _PLAIN) or (isinstance(argument, str) and V.graph.try_get_buffer(argument) is not None):
        raise _NotTold
    return (type(argument), argument)


# -- buffers ----------------------------------------------------------------------------------------------------------


def _buffer(name: str) -> Hashable:
    """All properties of a buffer on which a kernel's source may depend."""
    graph, scheduler = V.graph, V.graph.scheduler
    layout: Any = graph.get_buffer(name).get_layout()
    if type(layout) is not ir.FixedLayout or name in scheduler.mutation_real_name or name in scheduler.mutation_renames:
        raise _NotTold
    return (
        layout.device,
        layout.dtype,
        *_lengths((layout.size, layout.stride, [layout.offset])),
        should_unwrap_unspec_arg(name),
        name in graph.unaligned_buffers,
        name in graph.removed_buffers,
        name.startswith("seed"),
    )


def _lifetimes(features: SIMDKernelFeatures) -> tuple[bool, ...]:
    """For each buffer that is written: whether nothing needs it once these loops have ended."""
    nodes = features.scheduler_nodes()
    unstored = names_of_unstored(nodes)
    return tuple(output.get_name() in unstored for node in nodes for output in node.get_outputs())


class _Decisions:
    """Records, in place of a kernel, Inductor's decisions which buffers are written in place of others."""

    def __init__(self) -> None:
        self.args = KernelArgs()
        self.inplace_update_buffers: dict[str, str] = {}


def _decided_in_place(features: SIMDKernelFeatures) -> Mapping[str, str]:
    """The buffers that take over the memory of others, and those others."""
    decisions = _Decisions()
    with V.set_kernel_handler(decisions):
        for node in NodeScheduleMarker.only_nodes(features.node_schedule):
            node.decide_inplace_update()
    return decisions.inplace_update_buffers


def _written_in_place(features: SIMDKernelFeatures, numbers: Mapping[str, int]) -> tuple[tuple[int, int], ...]:
    """The same, by the numbers of the buffers."""
    pairs = _decided_in_place(features).items()
    if any(name not in numbers for pair in pairs for name in pair):
        raise _NotTold
    return tuple((numbers[new], numbers[old]) for new, old in pairs)


# -- a kernel with other buffers --------------------------------------------------------------------------------------


def _with_buffers(kernel: NpuKernel, names: Mapping[str, str], features: SIMDKernelFeatures) -> NpuKernel:
    """`kernel`, which is written, for the loops of `features`, where its buffers have other `names`."""
    again = copy.copy(kernel)
    _count()
    again.features = features
    again.args = _with_names(kernel.args, names)
    for attribute in _SETS_OF_BUFFERS:
        setattr(again, attribute, OrderedSet(names[name] for name in getattr(kernel, attribute)))
    again.inplace_update_buffers = {names[new]: names[old] for new, old in kernel.inplace_update_buffers.items()}
    return again


def _with_names(arguments: KernelArgs, names: Mapping[str, str]) -> KernelArgs:
    renamed = KernelArgs()
    renamed.input_buffers = {names[name]: inner for name, inner in arguments.input_buffers.items()}
    renamed.output_buffers = {names[name]: inner for name, inner in arguments.output_buffers.items()}
    shared: dict[int, Any] = {}  # buffers that share memory share one entry
    for name, place in arguments.inplace_buffers.items():
        if isinstance(place, InplacedBuffer) and id(place) not in shared:
            shared[id(place)] = place._replace(other_names=[names[other] for other in place.other_names])
        renamed.inplace_buffers[names[name]] = shared.get(id(place), place)
    renamed.sizevars = dict(arguments.sizevars)
    return renamed
