"""Runs one case on its sides: eager on the CPU, eager on `npu`, compiled on `npu` twice, stock Inductor on the CPU."""

from __future__ import annotations

import copy
import os
import resource
import traceback
import warnings
from collections import Counter
from collections.abc import Callable

import torch
import torch._dynamo
import torch._inductor.compile_fx
from torch import nn

from opinfo.outcomes import Verdict
from opinfo.running import first_line
from tools.tables import one_line
from world import peak
from world.case import TRAINING, Built
from world.judging import Judge
from world.outcomes import BUILD, COMPILED, EAGER, ON_CPU, STOCK, Outcome, Side
from world.results import Results, call, collected, moved, placed

Say = Callable[[str], None]


def run_case(name: str, build: Callable[[str], Built], outcome: Outcome, sides: str, say: Say) -> Outcome:
    """Fills in `outcome`, step by step: who hears `say` a stage finds in it what is known so far.

    sides: "cpu" for nothing but eager on the CPU, "npu", or "all" with stock Inductor on the CPU.
    """
    start = processor_seconds()
    train = name.endswith(TRAINING)
    try:
        judge = _judge(name, build, outcome, train, say)
    except Exception as error:  # noqa: BLE001 - not a case: the outcome says why
        outcome.reason, outcome.stage = first_line(error), BUILD
    else:
        if sides == "cpu":
            outcome.verdict, outcome.stage = Verdict.PASSED, ""
            return outcome
        say(EAGER)
        outcome.eager = _side(judge, judge.built, "npu", train, compiled=False)
        say(COMPILED)
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            outcome.npu = _observed_side(judge, outcome, train)
        outcome.warnings = sorted({one_line(str(one.message)) for one in heard if "npu" in str(one.message)})
        if sides == "all":
            say(STOCK)
            torch._dynamo.reset()
            outcome.stock = _side(judge, judge.built, "cpu", train, compiled=True)
        outcome.conclude()
    outcome.seconds = round(processor_seconds() - start, 1)
    return outcome


def _judge(name: str, build: Callable[[str], Built], outcome: Outcome, train: bool, say: Say) -> Judge:
    """The case's judge, its eager results on the CPU known. Raises what building or running it raises."""
    torch._dynamo.reset()
    say(BUILD)
    torch.manual_seed(0)
    built = built_in_mode(name, build)
    outcome.note, outcome.parameters = built.note, sum(weight.numel() for weight in built.model.parameters())
    judge = Judge(built, lambda one, seed: _twice_on_cpu(one, train, seed))
    say(ON_CPU)
    judge.random = _is_random(judge, train)
    if judge.random and train:  # what draws numbers in training only
        built.model.eval()
        judge = Judge(built, judge.run)
        judge.random = _is_random(judge, train)
    outcome.random = judge.random
    if not any(_is_finite_somewhere(tensor) for tensor in judge.eager[0].values()):
        raise ValueError("no result is finite")
    model = copy.deepcopy(built.model)
    most = peak.peak_of(lambda: call(model, Built(model, *moved((built.args, built.kwargs))), train), "cpu")
    outcome.cpu = Side(Verdict.PASSED, peak=peak.held(built) + most)
    return judge


def built_in_mode(name: str, build: Callable[[str], Built]) -> Built:
    """The case, its model in the mode in which it runs. Raises what building it raises."""
    built = build(name.removesuffix(TRAINING))
    if not built.keeps_mode:
        built.model.eval()
        if name.endswith(TRAINING):
            set_training(built.model)
    return built


def set_training(model: nn.Module) -> None:
    """Training mode, but for what draws random numbers."""
    model.train()
    for module in model.modules():
        if "drop" in type(module).__name__.lower():
            module.eval()


def _twice_on_cpu(built: Built, train: bool, seed: int = 0) -> tuple[Results, Results]:
    model = copy.deepcopy(built.model)
    one, two = (
        collected(call(model, Built(model, *moved((built.args, built.kwargs))), train, seed)[0], model) for _ in "12"
    )
    return one, two


def _is_random(judge: Judge, train: bool) -> bool:
    other, _ = _twice_on_cpu(judge.built, train, seed=1)
    return not judge.is_near(other)


def _is_finite_somewhere(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() and bool(torch.isfinite(tensor).any())


def _side(judge: Judge, built: Built, device: str, train: bool, compiled: bool) -> Side:
    """Calls twice, judges both calls, and measures the second."""
    side = Side()
    try:
        model = placed(copy.deepcopy(built.model), device)
        function = torch.compile(model) if compiled else model
        inputs = [Built(model, *moved((built.args, built.kwargs), device)) for _ in "123"]
        start = processor_seconds()
        first = collected(call(function, inputs[0], train)[0], model)
        middle, graphs = processor_seconds(), _graphs_compiled()
        second = collected(call(function, inputs[1], train)[0], model)
        end = processor_seconds()
        side.again = _graphs_compiled() - graphs
        side.seconds = round(max(middle - start - (end - middle), 0.01), 2) if compiled else 0.0
        side.milliseconds = round(1e3 * (end - middle), 1)
        side.reason = judge.why_wrong(first)
        if not side.reason and (why := judge.why_wrong(second, 1)):
            side.reason = f"second call: {why}"
        side.reason, side.how = one_line(side.reason), judge.how
        side.verdict = Verdict.WRONG if side.reason else Verdict.PASSED
        side.peak = peak.held(built) + peak.peak_of(lambda: call(function, inputs[2], train), device)
    except Exception as error:  # noqa: BLE001 - it is the case's, and the outcome says it
        side.verdict, side.reason, side.where = Verdict.ERROR, first_line(error), where_raised(error)
    return side


def _observed_side(judge: Judge, outcome: Outcome, train: bool) -> Side:
    """The compiled side on npu, with what compiling says of itself."""
    import inductor_npu

    torch._dynamo.reset()
    with inductor_npu.record_explanation() as recorded:
        side = _side(judge, judge.built, "npu", train, compiled=True)
    seen = recorded.explanation
    left: Counter[str] = Counter()
    for each in seen.left_to_eager:
        left[one_line(f"{', '.join(each.operators)} | {each.reason}")] += each.calls
    outcome.graphs, outcome.kernels = len(seen.graphs), len(seen.kernels)
    outcome.library_calls = sum(each.calls for each in seen.library_calls)
    outcome.breaks = [one_line(each.reason) for each in seen.graph_breaks for _ in range(each.times)]
    outcome.left_to_eager = dict(left)
    outcome.fallbacks = [one_line(f"{each.kernel}: {each.reason}") for each in seen.left_to_eager if each.kernel]
    outcome.eager_functions = [one_line(f"{each.function}: {each.reason}") for each in seen.eager_functions]
    return side


def processor_seconds() -> float:
    """Of this process, and of compilers that it started and that ended: what else runs beside does not count."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def _graphs_compiled() -> int:
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


def where_raised(error: BaseException) -> str:
    """The innermost frames of the error, and of this package before them."""
    while (inner := getattr(error, "inner_exception", None)) is not None:
        error = inner
    frames = traceback.extract_tb(error.__traceback__)
    chosen = frames[-1:] + [frame for frame in frames if "inductor_npu" in frame.filename][-1:]
    names = [f"{'/'.join(frame.filename.split(os.sep)[-2:])}:{frame.lineno} {frame.name}" for frame in chosen]
    return " <- ".join(dict.fromkeys(names))
