"""Compiles a graph again without what is optional, where compiling it fails.

The attempts, in order: without the graph pass that failed, or in Inductor's order of kernels if choosing another one
failed; without any optional graph pass; without templates either; then with eager operators for loops of which no
kernel can be planned. The generated module says what it was compiled without (`codegen/wrapper`): it warns each time it
is loaded, and `inductor_npu.explain` counts it. In strict mode the first error is the user's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import GraphModule, Node

from inductor_npu import config
from inductor_npu.codegen import attempt
from inductor_npu.codegen.annotations import provenance
from inductor_npu.codegen.attempt import Attempt
from inductor_npu.errors import CacheMissError, SettingError, UnknownGraphPassError, UnknownTargetError
from inductor_npu.lowering.graph_passes import passes
from inductor_npu.lowering.graph_passes.nodes import graph_is_on_npu
from inductor_npu.support.optional_steps import Kind, causes, step_of

Compile = Callable[..., Any]

# What no other attempt mends.
_FOR_THE_USER = (SettingError, UnknownGraphPassError, UnknownTargetError, CacheMissError)


def with_further_attempts(compile_graph: Compile) -> Compile:
    """`_InProcessFxCompile.codegen_and_compile`, called again without what is optional where it fails for `npu`.

    Raises the first error where no attempt succeeds, in strict mode, and for settings that are wrong.
    """

    def codegen_and_compile(self: Any, gm: GraphModule, *arguments: Any, **options: Any) -> Any:
        if config.strict or not graph_is_on_npu(gm):
            return compile_graph(self, gm, *arguments, **options)
        before = [_Saved.of(module) for module in gm.modules() if isinstance(module, GraphModule)]
        try:
            return compile_graph(self, gm, *arguments, **options)
        except Exception as error:  # raised below, unless another attempt succeeds
            if any(isinstance(each, _FOR_THE_USER) for each in causes(error)):
                raise
            first = error
        why = _described(first)
        for again, settings in _attempts(first, why):
            for saved in before:
                saved.restore()
            try:
                with config.patch(**settings), attempt.under_way(again):
                    return compile_graph(self, gm, *arguments, **options)
            except Exception as error:  # noqa: BLE001 - the first one is raised
                error.__context__ = None  # the first error is raised below; the others say less
        raise first

    return codegen_and_compile


def _attempts(error: Exception, why: str) -> Iterator[tuple[Attempt, dict[str, Any]]]:
    """The attempts after the first one, which ended with `error`, and the settings of each."""
    step = step_of(error)
    active = [each.name for each in passes.switched_on() if each.optional]
    if step is not None and step.kind is Kind.ORDER:
        yield Attempt(str(step), why), {}
    if step is not None and step.kind is Kind.GRAPH_PASS and step.name in active:
        others = ",".join(name for name in active if name != step.name) or "none"
        yield Attempt(str(step), why), {"graph_passes": others}
    if active:
        yield Attempt("graph passes", why), {"graph_passes": "none"}
    without = {"graph_passes": "none", "templates": "none"}
    yield Attempt("graph passes and templates", why), without
    yield Attempt("graph passes, templates and plans of kernels that fail", why, allows_operators=True), without


# -- what an error says -----------------------------------------------------------------------------------------------


def _described(error: Exception) -> str:
    """The error in one line, with the step, the operator and the user's line that it came from, as far as known."""
    step, node = step_of(error), _node_of(error)
    *_, cause = causes(error)
    message = next(iter(str(cause).strip().splitlines()), "")
    parts = [f"{type(cause).__name__}: {message}"]
    if step is not None:
        parts.append(f"in {step}")
    if node is not None:
        parts.append(f"at {node.target}")
        lines = provenance.lines_of_nodes([node])
        parts += [f"called in {line.file}:{line.line}: {line.text}" for line in lines]
    return ", ".join(parts)


def _node_of(error: Exception) -> Node | None:
    """The node of the graph that was being lowered or written when `error` was raised: Inductor keeps it in the
    variables of its functions, and tells nobody.
    """
    found: Node | None = None
    trace = error.__traceback__
    while trace is not None:
        variables = trace.tb_frame.f_locals
        node = variables.get("n", variables.get("node"))
        origins: Sequence[Node] = getattr(getattr(node, "node", None), "origins", None) or ()
        if isinstance(node, Node) and node.op == "call_function":
            found = node
        elif origins and all(isinstance(origin, Node) for origin in origins):
            found = list(origins)[-1]
        trace = trace.tb_next
    return found


# -- a graph as it was ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Saved:
    """A module and what it was before a compile, which rewrites its graph in place."""

    module: GraphModule
    graph: torch.fx.Graph
    attributes: dict[str, Any]

    @classmethod
    def of(cls, module: GraphModule) -> _Saved:
        return cls(module, copy.deepcopy(module.graph), _copied(vars(module)))

    def restore(self) -> None:
        """Makes the module what it was; can be called again."""
        vars(self.module).clear()
        vars(self.module).update(_copied(self.attributes))
        self.module.graph = copy.deepcopy(self.graph)


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes of a module; its tables of parts are copied, their tensors and modules are not."""
    return {name: dict(part) if type(part) is dict else part for name, part in attributes.items()}
