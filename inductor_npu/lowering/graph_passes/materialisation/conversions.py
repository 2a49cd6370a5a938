"""Conversions that are part of a product's kernel (lowering/contractions.py): weights of int8 for a few rows."""

from __future__ import annotations

import math

import torch
from torch.fx import Node

from inductor_npu import providers
from inductor_npu.lowering.graph_passes.nodes import is_view
from inductor_npu.tiling import cube
from inductor_npu.tiling.conversions import is_converted_inside
from inductor_npu.tiling.plan import FILLED

_aten = torch.ops.aten
_CONVERSIONS = (torch.ops.prims.convert_element_type.default, _aten._to_copy.default)
_PRODUCTS = (_aten.mm.default, _aten.bmm.default, _aten.addmm.default, _aten.baddbmm.default)


def is_for_products(node: Node) -> bool:
    """Whether `node` converts int8, and only products take it, or views of it, whose kernels do that themselves."""
    if node.target not in _CONVERSIONS or node.args[0].meta["val"].dtype != torch.int8:
        return False
    waiting = list(node.users)
    while waiting:
        user = waiting.pop()
        if is_view(user):
            waiting.extend(user.users)
        elif not _converts_right(user):
            return False
    return True


def _converts_right(product: Node) -> bool:
    """Whether the kernel of `product` converts its right operand from int8."""
    if product.target not in _PRODUCTS:
        return False
    left, right = (operand.meta["val"] for operand in product.args[-2:])
    sizes = (*left.shape, right.shape[-1])
    chip = providers.current_target()
    if left.dtype == torch.int8 or cube.why_library((left.dtype, right.dtype), chip) is not None:
        return False
    if not all(isinstance(size, int) and size > 0 for size in sizes):
        return False
    *batch, rows, inner, columns = sizes
    work = cube.ProductSummary(
        rows, columns, inner, math.prod(batch), left.dtype.itemsize, left.dtype.itemsize, converted=torch.int8.itemsize
    )
    return is_converted_inside(work, chip, FILLED)
