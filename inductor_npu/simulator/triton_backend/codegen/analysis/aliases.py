"""Which kernel arguments addresses derive from, and which addresses may be the same memory."""

from __future__ import annotations

from collections.abc import Iterable

from ...ttir.ir import PointerType, TensorType, Value
from ..forms.types import element_bytes, element_of, shape_of

_ADDRESS_OPERANDS = frozenset(
    {
        "tt.addptr",
        "tt.advance",
        "tt.bitcast",
        "tt.broadcast",
        "tt.expand_dims",
        "tt.make_tensor_ptr",
        "tt.make_tensor_descriptor",
        "tt.reshape",
        "tt.splat",
        "tt.trans",
        "tt.unsplat",
    }
)
ANYWHERE = None  # the base of an address of unknown origin: may be any argument


class AliasAnalysis:
    """The kernel arguments that addresses derive from, and which addresses may be the same memory.

    Two arguments may be the same tensor, unless the compiler is told that they are `distinct`.
    """

    def __init__(self, arguments: Iterable[Value] = (), distinct: bool = False) -> None:
        self._arguments = frozenset(arguments)
        self._distinct = distinct
        self._known: dict[Value, frozenset[Value] | None] = {}

    def carried(self, argument: Value, initial: Value) -> None:
        """A loop-carried pointer moves within what it first pointed into."""
        self._known[argument] = self.of(initial)

    def of(self, pointer: Value) -> frozenset[Value] | None:
        """The arguments that `pointer` may point into; ANYWHERE if that is not known."""
        if pointer not in self._known:
            owner = pointer.owner
            if owner is None:
                self._known[pointer] = frozenset((pointer,)) if pointer in self._arguments else ANYWHERE
            elif owner.name in _ADDRESS_OPERANDS:
                self._known[pointer] = self.of(owner.operands[0])
            elif owner.name == "arith.select":
                self._known[pointer] = _union(self.of(owner.operands[1]), self.of(owner.operands[2]))
            elif owner.name == "scf.for":
                self._known[pointer] = self.of(owner.operands[3 + pointer.index])
            else:
                self._known[pointer] = ANYWHERE
        return self._known[pointer]

    def may_alias(self, a: Value, b: Value) -> bool:
        """Whether some element of `a` may be the same memory as some element of `b`."""
        if not self._distinct:
            return True
        left, right = self.of(a), self.of(b)
        return left is ANYWHERE or right is ANYWHERE or bool(left & right)

    def in_step(self, a: Value, b: Value) -> bool:
        """Whether element i of `a` can only be the same memory as element i of `b`: the same offsets from one
        argument, or from two with elements of one size, which are either the same tensor or do not overlap.
        """
        if a is b:
            return True
        if shape_of(a.type) != shape_of(b.type) or _bytes_pointed_at(a) != _bytes_pointed_at(b):
            return False
        left, right = a.owner, b.owner
        if left is None or right is None:
            return a in self._arguments and b in self._arguments
        alike = left.name == right.name and left.name in _ADDRESS_OPERANDS and left.attrs == right.attrs
        same_offsets = alike and left.operands[1:] == right.operands[1:]
        return same_offsets and self.in_step(left.operands[0], right.operands[0])


def _bytes_pointed_at(pointer: Value) -> int | None:
    """The size of the elements at an address; None where it is of a block of them."""
    element = pointer.type.element if isinstance(pointer.type, TensorType) else pointer.type
    if not isinstance(element, PointerType) or isinstance(element.pointee, TensorType):
        return None
    return element_bytes(element_of(element.pointee))


def _union(a: frozenset[Value] | None, b: frozenset[Value] | None) -> frozenset[Value] | None:
    return ANYWHERE if a is ANYWHERE or b is ANYWHERE else a | b
