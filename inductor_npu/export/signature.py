"""What a package's inputs have to be, from the exported program; the runtime checks it at each call."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from types import NoneType
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind, TensorArgument

from inductor_npu.errors import UnpackableError
from inductor_npu.export.values import type_name


def signature_of(program: ExportedProgram, written: Collection[int]) -> dict[str, Any]:
    """The tensors among the inputs, in order: names, types, sizes, strides; and the sizes that vary, with their bounds.
    `written`: the places of inputs, tensors or not, that the program writes.

    Raises UnpackableError where an input is something else that varies.
    """
    nodes = {node.name: node for node in program.graph.find_nodes(op="placeholder")}
    symbols: dict[str, Any] = {}
    inputs = []
    specs = [spec for spec in program.graph_signature.input_specs if spec.kind is InputKind.USER_INPUT]
    for place, spec in enumerate(specs):
        value = nodes[spec.arg.name].meta.get("val") if spec.arg.name in nodes else None
        if isinstance(spec.arg, TensorArgument):
            inputs.append(_input(spec.arg.name, value, place in written, symbols))
        elif isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            reason = f"input {spec.arg.name} is a number that varies: make it a tensor"
            raise UnpackableError(reason=reason, where="")
    bounds = {str(symbol): limits for symbol, limits in program.range_constraints.items()}
    return {"inputs": inputs, "symbols": [_symbol(name, bounds, symbols[name]) for name in symbols]}


def results_of(program: ExportedProgram) -> list[Any]:
    """The model's results: {"tensor": True} for a tensor, {"constant": value} for what is known. Raises UnpackableError
    where a result is a number that varies.
    """
    results: list[Any] = []
    for spec in program.graph_signature.output_specs:
        if spec.kind is not OutputKind.USER_OUTPUT:
            continue
        if isinstance(spec.arg, TensorArgument):
            results.append({"tensor": True})
        elif isinstance(spec.arg, ConstantArgument) and isinstance(spec.arg.value, (bool, int, float, str, NoneType)):
            results.append({"constant": spec.arg.value})
        else:
            raise UnpackableError(reason=f"its result {spec.arg} is not a tensor", where="")
    return results


def _input(name: str, value: torch.Tensor, written: bool, symbols: dict[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": name,
        "dtype": type_name(value.dtype),
        "size": [_size(name, size, symbols) for size in value.shape],
        "written": written,
    }
    order = _dense_order(value)
    if order is not None:
        return {**described, "order": order}
    if not all(isinstance(stride, int) for stride in value.stride()):
        reason = f"input {name} has gaps between its elements and sizes that vary: export with it contiguous"
        raise UnpackableError(reason=reason, where="")
    return {**described, "stride": list(value.stride())}


def _size(name: str, size: int | torch.SymInt, symbols: dict[str, Any]) -> Any:
    expression = sympy.sympify(_expression(size))
    if expression.is_number:
        return int(expression)
    (symbol, *others) = sorted(expression.free_symbols, key=str)
    times, plus = expression.coeff(symbol, 1), expression.coeff(symbol, 0)
    if others or sympy.expand(expression - times * symbol - plus) != 0 or not (times.is_Integer and plus.is_Integer):
        reason = f"input {name} has size {expression}, and sizes have to be a symbol times a number plus a number"
        raise UnpackableError(reason=reason, where="")
    symbols.setdefault(str(symbol), (_hint(size) - int(plus)) // int(times))
    return {"symbol": str(symbol), "times": int(times), "plus": int(plus)}


def _symbol(name: str, bounds: Mapping[str, Any], example: int) -> dict[str, Any]:
    limits = bounds.get(name)
    most = None if limits is None or not sympy.sympify(limits.upper).is_Integer else int(limits.upper)
    least = 0 if limits is None else int(limits.lower)
    return {"name": name, "least": least, "most": most, "example": max(least, example)}


def _dense_order(value: torch.Tensor) -> list[int] | None:
    """The dimensions from the largest stride to the smallest, if the tensor has no gaps."""
    sizes: Sequence[Any] = [_expression(size) for size in value.shape]
    strides: Sequence[Any] = [_expression(stride) for stride in value.stride()]
    order: list[int] = []
    left = [axis for axis in range(len(sizes)) if sizes[axis] != 1]
    expected: Any = 1
    while left:
        axis = next((axis for axis in reversed(left) if sympy.expand(strides[axis] - expected) == 0), None)
        if axis is None:
            return None
        order.insert(0, axis)
        left.remove(axis)
        expected = expected * sizes[axis]
    return [axis for axis in range(len(sizes)) if sizes[axis] == 1] + order


def _hint(size: Any) -> int:
    """The size in the example; 0 if there is none."""
    return size.node.hint if size.node.has_hint() else 0


def _expression(value: int | torch.SymInt) -> Any:
    return value.node.expr if isinstance(value, torch.SymInt) else sympy.Integer(value)
