"""From a model to a compiled graph: exported, moved to `npu`, its constants folded, compiled ahead of time."""

from __future__ import annotations

import copy
import re
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import NoneType
from typing import Any

import torch
from torch._C._functorch import is_batchedtensor
from torch._inductor.exc import InductorError
from torch.export import ExportedProgram
from torch.export.passes import move_to_device_pass
from torch.utils import _pytree as pytree

from inductor_npu import providers
from inductor_npu.errors import UnpackableError
from inductor_npu.export.folding import Folded, fold
from inductor_npu.export.weights import named
from inductor_npu.export.writes import written_nodes

# How Inductor compiles: to a graph; with each weight kept as one, so that it can be updated; without what it asserts in
# Python, of the results of operators, which are eager PyTorch's.
_OPTIONS = {
    "fx_wrapper": True,
    "always_keep_tensor_constants": True,
    "joint_graph_constant_folding": False,
    "alignment_asserts": False,
    "size_asserts": False,
}
# Operators of higher order, as export keeps them, that have subgraphs to run one of, or one several times.
_CONTROL_FLOW = ("cond", "while_loop", "map_impl", "scan", "associative_scan")


@dataclass(frozen=True)
class CompiledModel:
    """program: what was exported, on `npu`. module: its graph with weights as attributes. graph_module: what Inductor
    made of it. written_inputs: the places of inputs that it writes; writes_weights: whether it writes buffers.
    """

    program: ExportedProgram
    module: torch.fx.GraphModule
    folded: Folded
    graph_module: torch.fx.GraphModule
    written_inputs: frozenset[int]
    writes_weights: bool


def export_model(
    model: torch.nn.Module | ExportedProgram, args: tuple[Any, ...], kwargs: Mapping[str, Any], dynamic_shapes: Any
) -> ExportedProgram:
    """`model` as an exported program on `npu`; the caller's stays where it is. Raises UnpackableError for control flow
    and operators that packages do not have, and what torch.export raises.
    """
    if isinstance(model, ExportedProgram):
        with _without_their_warnings():
            program = copy.deepcopy(model)
    else:
        with torch.no_grad():
            program = torch.export.export(model, args, dict(kwargs), dynamic_shapes=dynamic_shapes)
    _refuse_unpackable(program)
    return _on_npu(program)


def compile_model(program: ExportedProgram, options: Mapping[str, Any]) -> CompiledModel:
    """The program, compiled. `options`: more settings of Inductor. Raises UnpackableError."""
    if program.example_inputs is None:
        raise UnpackableError(
            reason="the exported program has no example inputs: export it with torch.export", where=""
        )
    module = program.module(check_guards=False)
    _drop_constant_results(module.graph)
    for node in module.graph.find_nodes(op="placeholder"):
        node.meta["val"] = _number_if_constant(node.meta.get("val"))
    smaller, folded = fold(module)
    args, kwargs = pytree.tree_map(_number_if_constant, program.example_inputs)
    with torch.no_grad(), _without_their_warnings():
        try:
            compiled = torch._inductor.aot_compile(smaller, args, kwargs, options={**options, **_OPTIONS})
        except InductorError as error:
            raise _explained(error, program) from error
    written = written_nodes(module.graph)
    inputs = frozenset(i for i, node in enumerate(module.graph.find_nodes(op="placeholder")) if node in written)
    return CompiledModel(program, module, folded, compiled, inputs, any(node.op == "get_attr" for node in written))


def _on_npu(program: ExportedProgram) -> ExportedProgram:
    """The program on `npu`, with weights that were one still one."""
    tied = named(program.state_dict)
    _forget_batched_values(program.graph_module)
    program = move_to_device_pass(program, torch.device("npu", torch.npu.current_device()))
    for weight in tied:
        first, *others = weight.names
        for name in others:
            program.state_dict[name] = program.state_dict[first]
    return program


def _forget_batched_values(graph_module: torch.fx.GraphModule) -> None:
    """Examples that vmap left behind, in which attention's score_mod is traced, cannot be moved."""
    for module in graph_module.modules():
        if isinstance(module, torch.fx.GraphModule):
            for node in module.graph.nodes:
                leaves = pytree.tree_leaves(node.meta.get("val"))
                if any(isinstance(leaf, torch.Tensor) and is_batchedtensor(leaf) for leaf in leaves):
                    del node.meta["val"]


def _drop_constant_results(graph: torch.fx.Graph) -> None:
    """Leaves the tensors among a graph's results; what else there is, is known."""
    (output,) = graph.find_nodes(op="output")
    output.args = (tuple(result for result in output.args[0] if isinstance(result, torch.fx.Node)),)


def _number_if_constant(value: Any) -> Any:
    """A number for an argument that does not vary: the graph does not use it, and Inductor takes no other constants."""
    return value if isinstance(value, (torch.Tensor, torch.SymInt, NoneType)) else 0


@contextmanager
def _without_their_warnings() -> Iterator[None]:
    """Holds back what Inductor's wrapper for graphs gives with constants and sizes, and pytree with copies."""
    with warnings.catch_warnings():
        for message in (
            "Attempted to insert a get_attr Node",
            "Raw SymInt value",
            r".*isinstance\(treespec, LeafSpec\)",
        ):
            warnings.filterwarnings("ignore", message=message)
        yield


def _refuse_unpackable(program: ExportedProgram) -> None:
    allowed = ("aten", "prims", "_c10d_functional", *providers.current_provider().operators)
    for node in program.graph.nodes:
        target = node.target
        if isinstance(target, torch._ops.HigherOrderOperator) and target.name() in _CONTROL_FLOW:
            reason = f"it has control flow, torch.ops.higher_order.{target.name()}, which packages do not have"
            raise UnpackableError(reason=reason, where=_where(node))
        if isinstance(target, torch._ops.OpOverload) and target.namespace not in allowed:
            reason = f"it calls {target}, which a process that loads the package cannot be expected to have"
            raise UnpackableError(reason=reason, where=_where(node))


def _explained(error: InductorError, program: ExportedProgram) -> UnpackableError:
    cause: BaseException = error
    while isinstance(cause, InductorError) and cause.__cause__ is not None:
        cause = cause.__cause__
    first = str(cause).strip().splitlines()
    return UnpackableError(reason=f"its compilation failed: {first[0] if first else type(cause).__name__}", where="")


def where_is(program: ExportedProgram, operator: str) -> str:
    """Where the user's code calls `operator`, as the end of a sentence; empty if that is not known."""
    for node in program.graph.nodes:
        if str(node.target).partition(".")[0] == operator.partition(".")[0] and (place := _where(node)):
            return place
    return ""


def _where(node: torch.fx.Node) -> str:
    lines = re.findall(r'File "([^<].*?)", line (\d+)', node.meta.get("stack_trace") or "")
    return f" ({lines[-1][0]}:{lines[-1][1]})" if lines else ""
