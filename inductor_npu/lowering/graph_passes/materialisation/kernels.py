"""Which kernels compute a value, as far as the graph tells before there are loops.

Inductor computes a value element by element wherever it is taken (it inlines it), until something needs it in memory: a
library's operator, a reduction, the end of the graph, or a loop that would read too many tensors. What is taken in one
kernel is computed there once; what several kernels take, each of them computes. Two loops are one kernel if they are at
the same stage, which is the number of calls, and of reductions along other axes, that have to be done before, and if
they go over the same elements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass

import torch
from torch.fx import Node

from inductor_npu.lowering.graph_passes.materialisation.kinds import Kind, kind_of
from inductor_npu.lowering.graph_passes.materialisation.reads import Reads
from inductor_npu.lowering.graph_passes.materialisation.sizes import elements_of, share_of
from inductor_npu.lowering.graph_passes.nodes import is_reduction_of_rows


@dataclass(frozen=True)
class Reduced:
    """What a reduction goes over: elements of its operand and of its result, and whether it takes rows of the operand.
    Reductions for which this is the same may be one kernel, together with loops over either.
    """

    elements: Hashable
    kept: Hashable
    of_rows: bool


@dataclass(frozen=True)
class Kernel:
    """Loops that are fused: they are at one stage, and go over so many elements, or over what `reduced` goes over.

    waits: whether nothing but the end of the graph takes what it computes, so that a later kernel may compute it, too.
    """

    stage: int
    reduced: Reduced | None
    elements: Hashable = None
    waits: bool = False

    def goes_over(self, elements: Hashable) -> bool:
        """Whether a loop over so many elements at the same stage is part of it."""
        if self.reduced is None:
            return elements == self.elements
        return elements in (self.reduced.elements, self.reduced.kept)

    def may_be_in(self, other: Kernel) -> bool:
        """Whether the loops of this one are part of `other`."""
        if self.stage != other.stage and not (self.waits and self.stage < other.stage):
            return False
        if self.reduced is None:
            return other.goes_over(self.elements)
        return self.reduced == other.reduced


@dataclass(frozen=True)
class _Stage:
    """After how many other kernels a value may be computed, and which reduction's kernel it is part of there."""

    number: int = 0
    reduced: Reduced | None = None

    @staticmethod
    def after(operands: Iterable[_Stage]) -> _Stage:
        """The first at which all of `operands` are there."""
        known = {_Stage(), *operands}
        last = max(each.number for each in known)
        reductions = {each.reduced for each in known if each.number == last} - {None}
        return _Stage(last + 1) if len(reductions) > 1 else _Stage(last, *reductions)

    def reducing(self, own: Reduced) -> _Stage:
        """That of a reduction of what is there at this one: kernels of other reductions are done before."""
        return _Stage(self.number + (self.reduced not in (None, own)), own)


class Kernels:
    """The kernels of `graph`, where what is stored is what Inductor stores of itself, which `reads` knows of all nodes,
    and what is chosen: `is_chosen` is asked of each value that is computed where it is taken, from the last to the
    first.
    """

    def __init__(
        self,
        graph: torch.fx.Graph,
        reads: Reads,
        is_chosen: Callable[[Kernels, Node], bool] = lambda kernels, node: False,
    ) -> None:
        self._reads = reads
        self._chosen: set[Node] = set()
        self._stages: dict[Node, _Stage] = {}
        for node in graph.nodes:
            self._stages[node] = self._stage_of(node)
        self._needed: dict[Node, bool] = {}
        self._computing: dict[Node, Mapping[Kernel, float]] = {}
        self._waits: dict[Node, bool] = {}
        for node in reversed(graph.nodes):
            kind = kind_of(node)
            self._waits[node] = kind is Kind.OUTPUT or (
                kind not in (Kind.LIBRARY, Kind.OTHER) and all(self._waits[user] for user in node.users)
            )
            if kind.is_inlined:
                self._needed[node] = any(map(self._needs, node.users))
                self._computing[node] = self._kernels_of(node)
                if is_chosen(self, node):
                    self._chosen.add(node)

    def computing(self, node: Node) -> Mapping[Kernel, float]:
        """The kernels that compute `node`, which is computed where it is taken, and what share of it each of them."""
        kernels = dict(self._computing[node])
        for kernel in sorted(kernels, key=lambda each: (each.reduced is not None, not each.waits)):
            fused = next((each for each in kernels if each != kernel and kernel.may_be_in(each)), None)
            if fused is not None:
                kernels[fused] = min(1.0, kernels[fused] + kernels.pop(kernel))
        return kernels

    def takes(self, kernel: Kernel, node: Node, user: Node) -> bool:
        """Whether `user` is, at least for a part, computed in `kernel`, and takes `node` there."""
        if kind_of(node) is Kind.SIZE or kind_of(user) in (Kind.LIBRARY, Kind.OUTPUT):
            return False
        return any(each.may_be_in(kernel) for each in self._kernels_through(node, user))

    def is_needed(self, node: Node) -> bool:
        """Whether something needs `node`, or a view of it, in memory."""
        return self._needed[node]

    def is_chosen(self, node: Node) -> bool:
        """Whether `node` is taken for stored though Inductor would compute it."""
        return node in self._chosen

    def _stage_of(self, node: Node) -> _Stage:
        stage = _Stage.after(self._stages[operand] for operand in node.all_input_nodes)
        kind = kind_of(node)
        if kind is Kind.REDUCTION:
            result = node.meta["val"]
            kept = elements_of(result[0] if isinstance(result, tuple) else result)
            elements = elements_of(node.args[0].meta["val"])
            return stage.reducing(Reduced(elements, kept, is_reduction_of_rows(node)))
        return _Stage(stage.number + 1) if kind in (Kind.LIBRARY, Kind.OTHER) else stage

    def _kernel_storing(self, node: Node) -> Kernel:
        """The kernel that stores `node`, a reduction's result or what is computed element by element."""
        stage, waits = self._stages[node], self._waits[node]
        if kind_of(node) is not Kind.REDUCTION:
            alone = Kernel(stage.number, None, elements_of(node.meta["val"]), waits)
            if stage.reduced is None or not alone.may_be_in(Kernel(stage.number, stage.reduced)):
                return alone
        return Kernel(stage.number, stage.reduced, None, waits)

    def _needs(self, user: Node) -> bool:
        """Whether `user` takes what is in memory, or is a view that something takes there."""
        kind = kind_of(user)
        return kind in (Kind.LIBRARY, Kind.OUTPUT) or (kind is Kind.VIEW and self._needed[user])

    def _kernels_of(self, node: Node) -> Mapping[Kernel, float]:
        """Of a view: those that compute its share of what it is a view of."""
        kernels: dict[Kernel, float] = defaultdict(float)
        for user in node.users:
            for kernel, share in self._kernels_through(node, user).items():
                kernels[kernel] = min(1.0, kernels[kernel] + share)
        return kernels

    def _kernels_through(self, node: Node, user: Node) -> Mapping[Kernel, float]:
        """The kernels that compute `node` for `user`, and what share of it each of them."""
        kind = kind_of(user)
        if kind is Kind.SIZE:
            return {}
        if kind in (Kind.LIBRARY, Kind.OUTPUT):
            return {self._kernel_storing(node): 1.0} if kind_of(node) is not Kind.CONSTANT else {}
        if kind is Kind.OTHER:
            stage = self._stages[user]
            return {Kernel(stage.number, None, user): 1.0}
        if kind is Kind.REDUCTION or self._reads.is_stored(user) or user in self._chosen:
            return {self._kernel_storing(user): 1.0}
        share = _share_taken(node, user) if kind is Kind.VIEW else 1.0
        return {kernel: share * part for kernel, part in self._computing[user].items()}


def _share_taken(node: Node, view: Node) -> float:
    """Which share of `node`, or of what several views in `node` are of, is in `view`."""
    value, part = node.meta["val"], view.meta["val"]
    if not isinstance(part, torch.Tensor):
        return 1.0
    return share_of(part, value if isinstance(value, torch.Tensor) else node.args[0].meta["val"])
