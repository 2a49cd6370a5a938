"""Kinds of operations: which touch memory, which move elements, which are computed where they are needed."""

from __future__ import annotations

import math

from ...host_functions import SORT
from ...ttir.ir import Op, TensorType, Value
from ..forms.types import shape_of

READS = frozenset({"tt.load", "tt.descriptor_load", "tt.descriptor_gather"})
WRITES = frozenset({"tt.store", "tt.descriptor_store", "tt.descriptor_scatter", "tt.descriptor_reduce"})
ATOMICS = frozenset({"tt.atomic_rmw", "tt.atomic_cas"})

VIEWS = frozenset(
    {"tt.broadcast", "tt.expand_dims", "tt.reshape", "tt.trans", "tt.join", "tt.split", "tt.descriptor_load"}
)
PACK = "npu.pack"  # an operand of a product, in the order in which that reads it

REGIONS = frozenset({"scf.for", "scf.while", "scf.if"})
# What is written on its own, outside of loop nests that others share.
STANDALONE = frozenset(
    {
        "tt.scan",
        "tt.dot",
        "tt.histogram",
        "tt.cat",
        "tt.print",
        "tt.assert",
        "cf.assert",
        "tt.unsplat",
        SORT,
        PACK,
    }
)
# Attribute of an extension of integers of which all that becomes is what an address is moved by.
MOVES_ADDRESSES_ONLY = "moves_addresses_only"


def is_tensor(value: Value) -> bool:
    """Whether it is a tile, of any shape, and no scalar."""
    return isinstance(value.type, TensorType)


def is_pair(op: Op) -> bool:
    """Whether this reduction is over an axis of two: then it is virtual, as both halves are cheap to compute."""
    if op.name != "tt.reduce" or not is_tensor(op.results[0]):
        return False
    return shape_of(op.operands[0].type)[op.attrs["axis"]] == 2 and math.prod(shape_of(op.results[0].type)) > 1


def is_virtual(op: Op) -> bool:
    """Whether the operation's results are tensors that are computed where they are needed."""
    if op.name == "tt.reduce" and not is_pair(op):
        return False
    if op.name in STANDALONE or op.name in REGIONS or op.name in ATOMICS or not op.results:
        return False
    return all(is_tensor(r) for r in op.results)


def moves(op: Op) -> bool:
    """Whether a virtual operation reads its operands at other coordinates than its result's."""
    return op.name in VIEWS or op.name in ("tt.reduce", "tt.gather")
