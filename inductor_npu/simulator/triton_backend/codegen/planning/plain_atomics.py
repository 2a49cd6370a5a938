"""Which kernels may perform atomics as plain reads and writes."""

from __future__ import annotations

from collections.abc import Mapping

from ...host_functions import SORT
from ...ttir.ir import Function, TensorType, Value
from ..analysis.operations import ATOMICS
from ..forms.types import element_of

RMW_INSTRUCTIONS = {
    "add": "add",
    "fadd": "fadd",
    "and": "and",
    "or": "or",
    "xor": "xor",
    "max": "max",
    "min": "min",
    "umax": "umax",
    "umin": "umin",
    "exch": "xchg",
}
# What takes so long beside an atomic that several threads are worth it.
_COSTLY = frozenset({"tt.dot", "tt.reduce", "tt.scan", "tt.extern_elementwise", "scf.while", SORT})


def are_atomics_plain(function: Function, uses: Mapping[Value, int]) -> bool:
    """Whether `function` does little but atomics, on tiles, whose old values nobody uses."""
    found = False
    for op in function.body.walk():
        is_check = op.name == "tt.reduce" and element_of(op.operands[0].type) == "i1"  # of a tile's device_assert
        if (op.name in _COSTLY and not is_check) or op.name.startswith("math."):
            return False
        if op.name in ATOMICS:
            plain = op.name == "tt.atomic_rmw" and op.attrs["rmw_op"] in RMW_INSTRUCTIONS and not uses[op.result]
            if not plain or not isinstance(op.result.type, TensorType):
                return False
            found = True
    return found
