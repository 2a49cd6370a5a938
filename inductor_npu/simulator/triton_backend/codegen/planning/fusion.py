"""Which roots share a loop nest, in which order of the steps."""

from __future__ import annotations

from collections.abc import Sequence

from ...ttir.ir import Op, Value
from ..analysis.effects import free_values, written_pointers
from ..analysis.operations import ATOMICS, READS, STANDALONE, is_virtual
from .dataflow import Dataflow
from .steps import Group, NestStep, OpRoot, OpStep, Root, Step, root_of


class Fusion:
    """The `steps` of a block: neighbouring roots over one shape fuse, where that keeps the order of effects."""

    def __init__(self, flow: Dataflow, separate_tail: bool) -> None:
        self.flow, self.facts = flow, flow.facts
        self.steps: list[Step] = []
        self._open: NestStep | None = None
        self._open_mask = 0
        for position, op in enumerate(flow.ops):
            self._place(position, op)
        if separate_tail:
            self._close()
        for k, root in enumerate(flow.tail):
            self._add_root(len(flow.ops) + k, root)
        self._close()

    def _place(self, position: int, op: Op) -> None:
        if is_virtual(op):
            if op.name in READS and self._written_by_open(op.operands[0]):
                self._close()
            return
        root = root_of(op)
        if root is not None:
            self._add_root(position, root)
            return
        used = list(op.operands) + (list(free_values(op)) if op.regions else [])
        effects = op.name in READS or bool(written_pointers(op)) or op.name in STANDALONE or op.regions
        if self.flow.all_of(self.flow.needs, used) & self._open_mask or (effects and not self._independent(op)):
            self._close()
        behind = len(self.steps) if self._open is None else len(self.steps) - 1  # it does not concern the open group
        self.steps.insert(behind, OpStep(op, [position]))

    def _independent(self, op: Op) -> bool:
        """Whether a scalar memory operation may be done before the open group."""
        if self._open is None or op.regions or op.name in STANDALONE:
            return self._open is None
        reads = op.name in READS
        return not written_pointers(op) and not (reads and self._written_by_open(op.operands[0]))

    def _written_by_open(self, pointer: Value) -> bool:
        """Whether the open group may write what a read through `pointer`, which comes after it, must see."""
        return self._open is not None and any(
            self.facts.aliases.may_alias(pointer, written)
            for root in self._open.group.roots
            if isinstance(root, OpRoot)
            for written in written_pointers(root.op)
        )

    def _add_root(self, position: int, root: Root) -> None:
        if self._open is not None and not self._fits(root, self._open.group):
            self._close()
        if self._open is None:
            self._open = NestStep(Group([], root.shape, root.axis))
            self.steps.append(self._open)
        group = self._open.group
        group.roots.append(root)
        group.axis = root.axis if group.axis is None else group.axis
        self._open.positions.append(position)
        self._open_mask |= 1 << position

    def _close(self) -> None:
        self._open, self._open_mask = None, 0

    def _fits(self, root: Root, group: Group) -> bool:
        """Whether the open `group` can take `root`."""
        if root.shape != group.shape or (None is not root.axis != group.axis and group.axis is not None):
            return False
        if self.flow.all_of(self.flow.needs, root.operands) & self._open_mask:
            return False
        return not self._conflicts([*group.roots, root])

    def _conflicts(self, roots: Sequence[Root]) -> bool:
        """Whether interleaving the chunks of these roots could read or overwrite what another chunk wrote."""
        writes = [r.op for r in roots if isinstance(r, OpRoot) and r.is_effect]
        if len(roots) > 1 and any(w.name in ATOMICS for w in writes):
            return True
        operands = [value for root in roots for value in root.operands]
        loads, moved = self.flow.all_of(self.flow.loads, operands), self.flow.all_of(self.flow.moved, operands)
        for i, write in enumerate(writes):
            pointer = write.operands[0]
            for other in writes[:i]:
                first = other.operands[0]
                if not self.facts.aliases.in_step(first, pointer) and self.facts.aliases.may_alias(first, pointer):
                    return True
            if self.flow.unsafe_loads(pointer, loads, moved):
                return True
        return False
