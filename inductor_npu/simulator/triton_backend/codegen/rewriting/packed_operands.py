"""Operands of products are packed by operations of their own (`variants/pack.py`): once, however many products share
them, and outside of the loops that do not change them.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...mathlib import HostVectors, PackedProduct, UnknownFunction, packed_product
from ...ttir.ir import Block, Function, Op, ScalarType, TensorType, Value
from ..analysis.operations import PACK
from ..analysis.tile_extents import Extents, dot_extents
from ..errors import UnsupportedOperation
from ..forms.types import element_of, shape_of
from .building import make_op


def pack_operands(function: Function, host: HostVectors, observed: bool) -> None:
    """Inserts operations PACK with attributes `product`, `is_left`, `extents` and `left`, A packed where B then may not
    have to be. They are operands of the products from then on; these have `product` and `extents`, too. Operands are
    converted first to what is computed in.

    Where what the kernel reads is `observed`, all of each tile is read and multiplied.

    Raises UnsupportedOperation for a product of elements that cannot be multiplied.
    """
    dots = [op for op in function.body.walk() if op.name == "tt.dot"]
    extents = {} if observed or not dots else dot_extents(function)
    _Packing(host, extents).block(function.body, ())


@dataclass(eq=False)
class _Place:
    """A block that is being rewritten, and its operations so far; `defined` in it and in what is inside of it."""

    ops: list[Op]
    defined: set[Value]
    is_loop: bool


class _Packing:
    def __init__(self, host: HostVectors, extents: dict[Op, Extents]) -> None:
        self.host, self.extents = host, extents
        self.packed: dict[tuple[Value, bool, PackedProduct, int, Extents, Value | None], Value] = {}

    def block(self, block: Block, outer: tuple[_Place, ...], is_loop: bool = False) -> None:
        place = _Place([], set(block.arguments), is_loop)
        for op in block.ops:
            for region in op.regions:
                self.block(region, (*outer, place), op.name == "scf.for")
            if op.name == "tt.dot":
                self._dot(op, (*outer, place))
            place.ops.append(op)
            place.defined.update(op.results)
        block.ops = place.ops

    def _dot(self, op: Op, places: tuple[_Place, ...]) -> None:
        a, b, _ = op.operands
        *_, m, k = shape_of(a.type)
        try:
            product = packed_product(
                (m, shape_of(b.type)[-1], k),
                (element_of(a.type), element_of(b.type)),
                element_of(op.result.type),
                self.host,
            )
        except UnknownFunction as error:
            raise UnsupportedOperation(op, str(error)) from error
        op.attrs["product"], op.attrs["extents"] = product, self.extents.get(op, Extents())
        for number, operand in enumerate((a, b)):
            op.operands[number] = self._packed(op, operand, number == 0, places)

    def _packed(self, dot: Op, operand: Value, is_left: bool, places: tuple[_Place, ...]) -> Value:
        """`operand` packed, in the outermost block that it does not change in."""
        depth = len(places) - 1
        while depth and places[depth].is_loop and operand not in places[depth].defined:
            depth -= 1
        place, product = places[depth], dot.attrs["product"]
        extents = dot.attrs["extents"].of_operand(is_left, inside=depth == len(places) - 1)
        left = None if is_left or not extents.rows else dot.operands[0]
        key = (operand, is_left, product, id(place), extents, left)
        if key not in self.packed:
            converted = self._converted(dot, operand, product, place)
            pack = make_op(PACK, [converted], converted.type, dot, product=product, is_left=is_left, extents=extents)
            pack.attrs["left"] = left
            place.ops.append(pack)
            place.defined.add(pack.result)
            self.packed[key] = pack.result
        return self.packed[key]

    def _converted(self, dot: Op, operand: Value, product: PackedProduct, place: _Place) -> Value:
        element = element_of(operand.type)
        if element == product.element:
            return operand
        name = "arith.sitofp" if element == "i8" else "arith.extf" if element in ("f16", "bf16") else "tt.fp_to_fp"
        conversion = make_op(name, [operand], TensorType(shape_of(operand.type), ScalarType(product.element)), dot)
        place.ops.append(conversion)
        return conversion.result
