"""From a compiled graph to the program of a package: a flat list of instructions over numbered registers.

The runtime reads it in package_runtime/csrc/package/program.cpp. Instructions allocate, view, launch a kernel, call an
operator through PyTorch's dispatcher, and compute with sizes. Each says which registers nobody needs any more.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import sympy
import torch
from torch._higher_order_ops.triton_kernel_wrap import kernel_side_table, triton_kernel_wrapper_mutation
from torch.utils._sympy import functions

from inductor_npu import providers
from inductor_npu.errors import UnpackableError
from inductor_npu.export.arithmetic import function_name
from inductor_npu.export.kernels import KernelTable
from inductor_npu.export.values import device_name, encode, type_name

Json = Any
_FUNCTIONS_OF_SIZES: dict[type, str] = {
    sympy.Add: "add",
    sympy.Mul: "mul",
    sympy.Pow: "pow",
    functions.FloorDiv: "floordiv",
    functions.CleanDiv: "floordiv",
    functions.Mod: "mod",
    functions.PythonMod: "mod",
    functions.Min: "min",
    functions.Max: "max",
    sympy.Min: "min",
    sympy.Max: "max",
}


class Translator:
    """Translates the nodes of one graph, in order.

    weights: the number of each constant of the graph, by the name of its attribute.
    kernels: where kernels get their numbers.
    """

    def __init__(self, weights: Mapping[str, int], kernels: KernelTable) -> None:
        self._weights = weights
        self._kernels = kernels
        self._values: dict[torch.fx.Node, Json] = {}
        self._results: dict[torch.fx.Node, list[Json]] = {}  # of operators with several
        self._registers = 0
        self._instructions: list[dict[str, Json]] = []
        self._sizes: dict[sympy.Expr, Json] = {}  # what is known of expressions

    def program(self, nodes: Iterable[torch.fx.Node], outputs: Sequence[torch.fx.Node | None]) -> Json:
        """The program of `nodes`, whose placeholders are its inputs. Raises UnpackableError."""
        for node in nodes:
            self._translate(node)
        results = [encode(output, self._value) for output in outputs]
        _mark_last_uses(self._instructions, results)
        return {"registers": self._registers, "instructions": self._instructions, "outputs": results}

    def _translate(self, node: torch.fx.Node) -> None:
        if node.op == "placeholder":
            # Other inputs than tensors do not vary: the graph does not use them.
            self._values[node] = self._register() if isinstance(node.meta.get("val"), torch.Tensor) else None
        elif node.op == "get_attr":
            self._values[node] = self._constant(node)
        elif node.op == "call_function":
            self._call(node)
        elif node.op != "output":
            raise UnpackableError(reason=f"its graph calls {node.target}", where="")
        if isinstance(value := node.meta.get("val"), torch.SymInt):
            self._sizes.setdefault(value.node.expr, self._values[node])

    def _constant(self, node: torch.fx.Node) -> Json:
        name = str(node.target)
        if name not in self._weights:
            raise UnpackableError(
                reason="it has control flow (torch.cond, a loop), which packages do not have", where=""
            )
        return {"w": self._weights[name]}

    def _call(self, node: torch.fx.Node) -> None:
        target: Any = node.target
        if target is triton_kernel_wrapper_mutation:
            self._launch(node)
        elif target is torch.empty_strided:
            self._allocate(node)
        elif target is torch.as_strided:
            self._view(node)
        elif target is operator.getitem:
            self._take(node)
        elif target is torch.sym_sum:
            self._sum(node)
        elif name := function_name(target):
            self._compute(node, name, node.args)
        elif isinstance(target, torch._ops.OpOverload):
            self._call_operator(node, target)
        else:
            reason = f"it calls {_shown(target)}, which is not an operator of ATen"
            raise UnpackableError(reason=reason, where="", operator=str(target))

    def _allocate(self, node: torch.fx.Node) -> None:
        sizes, strides = node.args
        self._add(
            "allocate",
            size=self._encode(sizes),
            stride=self._encode(strides),
            dtype=type_name(node.kwargs["dtype"]),
            device=device_name(node.kwargs["device"]),
            to=self._assign(node),
        )

    def _view(self, node: torch.fx.Node) -> None:
        of, sizes, strides, offset = node.args
        self._add(
            "view",
            of=self._encode(of),
            size=self._encode(sizes),
            stride=self._encode(strides),
            offset=self._encode(offset),
            to=self._assign(node),
        )

    def _launch(self, node: torch.fx.Node) -> None:
        facts: Any = node.kwargs
        constants = kernel_side_table.get_constant_args(facts["constant_args_idx"])
        number, names = self._kernels.number(facts["kernel_idx"])
        given = {**facts["kwargs"], **constants}
        (grid,) = facts["grid"]
        self._add(
            "launch",
            kernel=number,
            grid=[*self._encode(grid), 1, 1][:3],
            arguments=[self._encode(given[name]) for name in names],
        )

    def _take(self, node: torch.fx.Node) -> None:
        of, index = node.args
        results = self._results.get(of)
        if results is not None:
            self._values[node] = results[index]
        else:
            self._compute(node, "item", node.args)

    def _compute(self, node: torch.fx.Node, function: str, operands: Sequence[Any]) -> None:
        encoded = [self._encode(operand) for operand in operands]
        self._add("compute", function=function, operands=encoded, to=self._assign(node))

    def _sum(self, node: torch.fx.Node) -> None:
        (operands,) = node.args
        self._values[node] = self._reduced("add", self._encode(operands))

    def _call_operator(self, node: torch.fx.Node, target: torch._ops.OpOverload) -> None:
        if target.namespace not in ("aten", *providers.current_provider().operators):
            reason = f"it calls {target}, which a process that loads the package cannot be expected to have"
            raise UnpackableError(reason=reason, where="", operator=str(target))
        schema = target._schema
        arguments = {argument.name: value for argument, value in zip(schema.arguments, node.args)}
        encoded = {name: self._argument(value) for name, value in {**arguments, **node.kwargs}.items()}
        results = [self._register() for _ in schema.returns]
        if len(results) == 1:
            (self._values[node],) = results
        else:
            self._results[node] = results
        self._add(
            "call",
            operator=schema.name,
            overload=schema.overload_name,
            arguments=encoded,
            to=[result["r"] for result in results],
        )

    def _argument(self, value: Any) -> Json:
        # Devices of an operator may be given by name, which looks like any other string.
        if isinstance(value, str) and value.partition(":")[0] in ("npu", "cpu"):
            return {"device": device_name(value)}
        return self._encode(value)

    def _encode(self, value: Any) -> Json:
        return encode(value, self._value)

    def _value(self, value: torch.fx.Node | sympy.Expr) -> Json:
        return self._values[value] if isinstance(value, torch.fx.Node) else self._size(value)

    def _size(self, expression: sympy.Expr) -> Json:
        """The value of an expression of sizes, which Inductor leaves in the arguments of operators."""
        if expression.is_Integer:
            return int(expression)
        if expression not in self._sizes:
            function = _FUNCTIONS_OF_SIZES.get(type(expression))
            if function is None:
                reason = f"an operator gets the size {expression}, which cannot be computed of sizes of inputs"
                raise UnpackableError(reason=reason, where="")
            self._sizes[expression] = self._reduced(function, [self._size(part) for part in expression.args])
        return self._sizes[expression]

    def _reduced(self, function: str, operands: Sequence[Json]) -> Json:
        """`function`, of two operands, applied to all from the left."""
        result, *rest = operands
        for operand in rest:
            target = self._register()
            self._add("compute", function=function, operands=[result, operand], to=target["r"])
            result = target
        return result

    def _assign(self, node: torch.fx.Node) -> int:
        self._values[node] = self._register()
        return self._values[node]["r"]

    def _register(self) -> dict[str, int]:
        self._registers += 1
        return {"r": self._registers - 1}

    def _add(self, kind: str, **fields: Json) -> None:
        self._instructions.append({"do": kind, **fields})


def _shown(target: Any) -> str:
    return getattr(target, "__qualname__", None) or str(target)


def _mark_last_uses(instructions: Sequence[dict[str, Json]], outputs: Json) -> None:
    """Adds `last`: the registers that no later instruction, and no output, needs."""
    needed = set(_registers(outputs))
    for instruction in reversed(instructions):
        made = instruction.get("to", [])
        named = {*_registers(instruction), *(made if isinstance(made, list) else [made])}
        instruction["last"] = sorted(named - needed)
        needed |= named


def _registers(value: Json) -> Iterable[int]:
    if isinstance(value, dict):
        if isinstance(value.get("r"), int):
            yield value["r"]
        value = list(value.values())
    if isinstance(value, list):
        for part in value:
            yield from _registers(part)


def translate(graph_module: torch.fx.GraphModule, weights: Mapping[str, int], kernels: KernelTable) -> Json:
    """The program of a whole graph."""
    (output,) = graph_module.graph.find_nodes(op="output")
    results = output.args[0]
    outputs = list(results) if isinstance(results, (list, tuple)) else [results]
    return Translator(weights, kernels).program(graph_module.graph.nodes, outputs)
