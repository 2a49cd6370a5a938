"""Runs one case: eager on the CPU, eager in higher precision, compiled on the device, forward and backward."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
import torch._dynamo
import torch._inductor.compile_fx
from torch._inductor import config as inductor_config
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V
from torch.utils import _pytree as pytree

from opinfo.comparison import difference, statistical_difference
from opinfo.outcomes import Case, Outcome, Verdict
from opinfo.samples import ARGUMENTS_ON_CPU, UNDEFINED_VALUES, Arguments, operators, unseeded
from tools.tables import one_line


class _Skip(Exception):
    """The sample is no case; the message says why."""


class _Wrong(Exception):
    """The result is not right; the message says where."""


def run_case(case: Case, sample: Any, device: str) -> Outcome:
    """Compiles the sample's call for `device`, "cpu" meaning stock Inductor, and says what became of it."""
    start = time.perf_counter()
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        stack.enter_context(unseeded())
        verdict, reason, how, eager = _verdict(case, _Call(case, sample), device)
    return Outcome(case, verdict, reason, eager, how, round(time.perf_counter() - start, 2))


def _verdict(case: Case, call: _Call, device: str) -> tuple[Verdict, str, str, tuple[str, ...]]:
    ran_in_eager: list[str] = []
    try:
        expected = call.expected()
    except _Skip as why:
        return Verdict.SKIPPED, str(why), "", ()
    try:
        with _observed(ran_in_eager):
            call.check(expected, call.compiled(device, case.dynamic, backward=True))
    except _Wrong as wrong:
        verdict, reason = Verdict.WRONG, str(wrong)
    except Exception as error:  # noqa: BLE001 - it is the case's, and the table says it
        verdict, reason = Verdict.ERROR, first_line(error)
        if expected.gradients is not None and _forward_passes(case, call, expected, device):
            reason = one_line(f"backward: {reason}")
    else:
        verdict, reason = Verdict.PASSED, ""
    return verdict, reason, expected.how, tuple(dict.fromkeys(ran_in_eager))


def _forward_passes(case: Case, call: _Call, expected: _Results, device: str) -> bool:
    try:
        call.check(expected, call.compiled(device, case.dynamic, backward=False))
    except Exception:  # noqa: BLE001 - that is what is asked
        return False
    return True


def first_line(error: BaseException) -> str:
    """What a person would quote of an error: its type and its first line, or Dynamo's explanation, without wrapping."""
    while (inner := getattr(error, "inner_exception", None)) is not None:
        error = inner
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    explained = [line for line in lines if line.startswith("Explanation:")]
    return one_line(f"{type(error).__name__}: {(explained or lines or [''])[0]}")


class _Results:
    """What one way of calling gave: results, inputs afterwards, gradients of the inputs (None: not differentiated)."""

    def __init__(self, results: Any, inputs: list[torch.Tensor], gradients: list[Any] | None, how: str = "") -> None:
        self.results, self.inputs, self.gradients, self.how = results, inputs, gradients, how
        self.wide: _Results | None = None


class _Call:
    """One sample's call, and the three ways in which it runs."""

    def __init__(self, case: Case, sample: Any) -> None:
        self.case = case
        self.operator = operators()[case.operator]
        on_cpu = self.operator.name in ARGUMENTS_ON_CPU
        self.arguments = Arguments(sample.input, tuple(sample.args), dict(sample.kwargs), on_cpu)
        self.process = sample.output_process_fn_grad

    def function(self, value: Any, rest: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        return self.operator(value, *rest, **keywords)

    def expected(self) -> _Results:
        """Eager on the CPU, with the same in higher precision as `wide`. Raises _Skip if eager refuses the sample."""
        if any(tensor.layout is not torch.strided for tensor in self.arguments.tensors()):
            raise _Skip("sparse inputs")
        try:
            expected = self._run(self.function, self.arguments.copied(), seed=0)
            again = self._run(self.function, self.arguments.copied(), seed=1)
        except Exception as error:
            raise _Skip(f"eager on the CPU: {first_line(error)}") from error
        if self.operator.name in UNDEFINED_VALUES:
            expected.how = "shape"
        elif difference(again.results, expected.results, None):
            expected.how = "statistics"
        else:
            expected.wide = self._wide(expected)
        return expected

    def _wide(self, expected: _Results) -> _Results | None:
        """The call in float64 or complex128, None where the operator does not take that."""
        before = torch.get_default_dtype()
        torch.set_default_dtype(torch.float64)  # integers promote to it
        try:
            return self._run(self.function, self.arguments.copied(widened=True), 0, expected.gradients is not None)
        except Exception:  # noqa: BLE001 - float64 is not required of an operator
            return None
        finally:
            torch.set_default_dtype(before)

    def compiled(self, device: str, dynamic: bool, backward: bool) -> _Results:
        torch._dynamo.reset()
        arguments = self.arguments.copied(device)
        return self._run(torch.compile(self.function, dynamic=dynamic), arguments, seed=0, backward=backward)

    def _run(self, function: Any, arguments: Arguments, seed: int, backward: bool = True) -> _Results:
        torch.manual_seed(seed)
        leaves = [tensor for tensor in arguments.tensors() if tensor.requires_grad]
        with torch.set_grad_enabled(bool(leaves) and backward):
            results = function(*arguments.all)
            gradients = self._gradients(results, leaves) if leaves and backward else None
        return _Results(results, arguments.tensors(), gradients)

    def _gradients(self, results: Any, leaves: list[torch.Tensor]) -> list[Any] | None:
        """Gradients for cotangents that are the same numbers in every precision; None if nothing is differentiable."""
        processed = self.process(results)
        roots = [
            tensor
            for tensor in pytree.tree_leaves(processed)
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad and tensor.layout is torch.strided
        ]
        if not roots:
            return None
        generator = torch.Generator().manual_seed(7)
        cotangents = []
        for root in roots:
            # Numbers with few digits, so that rounding them to a half type loses nothing.
            shape = (*root.shape, 2) if root.dtype.is_complex else root.shape
            numbers = (torch.randn(shape, generator=generator, dtype=torch.float32) * 8).round() / 8
            numbers = torch.view_as_complex(numbers) if root.dtype.is_complex else numbers
            cotangents.append(numbers.to(root.device, root.dtype))
        found = torch.autograd.grad(roots, leaves, cotangents, allow_unused=True)
        return [torch.zeros_like(leaf) if gradient is None else gradient for gradient, leaf in zip(found, leaves)]

    def check(self, expected: _Results, actual: _Results) -> None:
        """Raises _Wrong where `actual` is not right."""
        if expected.how == "shape":
            why = statistical_difference(
                pytree.tree_map_only(torch.Tensor, torch.zeros_like, actual.results),
                pytree.tree_map_only(torch.Tensor, torch.zeros_like, expected.results),
            )
        elif expected.how == "statistics":
            why = statistical_difference(actual.results, expected.results)
        else:
            wide = expected.wide
            why = difference(actual.results, expected.results, wide and wide.results)
            if not why and (why := difference(actual.inputs, expected.inputs, wide and wide.inputs)):
                why = f"inputs afterwards: {why}"
            if not why and actual.gradients is not None and expected.gradients is not None:
                why = difference(actual.gradients, expected.gradients, wide and wide.gradients)
                why = why and f"backward: {why}"
        if why:
            raise _Wrong(one_line(why))


@contextmanager
def _observed(ran_in_eager: list[str]) -> Iterator[None]:
    """Adds to `ran_in_eager` each operator that a graph leaves to eager though Inductor has a lowering for it, and why
    each graph was broken.
    """
    create = ir.FallbackKernel.create.__func__  # type: ignore[attr-defined]

    def creating(cls: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        if _generates_code_elsewhere(kernel):
            ran_in_eager.append(str(kernel))
        return create(cls, kernel, *args, **kwargs)

    torch._dynamo.utils.counters.clear()
    with mock.patch.object(ir.FallbackKernel, "create", classmethod(creating)):
        yield
    for reason in torch._dynamo.utils.counters["graph_break"]:
        ran_in_eager.append(one_line(f"graph break: {reason}")[:80])
    if not torch._dynamo.utils.counters["stats"].get("unique_graphs"):
        ran_in_eager.append("no graph")


def _generates_code_elsewhere(kernel: Any) -> bool:
    """Whether Inductor has a lowering of its own for `kernel`, and for the dtypes of this node."""
    own = lowering.lowerings.get(kernel)
    if own is None or getattr(own, "_is_fallback_handler", False) or kernel in lowering.fallbacks:
        return False
    node = V.graph.current_node
    return not (isinstance(node, torch.fx.Node) and lowering.fallback_node_due_to_unsupported_type(node))


def prepare() -> None:
    """Switches of a process that runs cases: graphs are compiled, not found; kernels may be found, by their content."""
    inductor_config.fx_graph_cache = False
    torch._functorch.config.enable_autograd_cache = False
