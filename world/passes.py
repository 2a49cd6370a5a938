"""What each optional graph pass does for other people's programs: a case compiled with all passes, with none, and
without each pass that rewrites something in it. `python -m world passes` measures, and says what is worth its place.
"""

from __future__ import annotations

import contextlib
import copy
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields

import torch
from rich.table import Table

from opinfo.outcomes import Verdict
from opinfo.running import first_line
from world import peak
from world.case import TRAINING, Built
from world.outcomes import BUILD, Outcome
from world.results import call, moved, placed
from world.running import built_in_mode, processor_seconds

CALLS = 5  # of which the quickest counts
ALL, NONE = "all", "none"
SHARE = 0.03  # what a pass has to gain on three cases, and may lose on none
# What of a measurement tells how good the code is; times are noisy and only shown.
_KEPT = ("launches", "bytes", "cycles", "refused", "peak")


@dataclass(frozen=True)
class Measured:
    """A case compiled with some of the passes: launches of kernels, bytes that they move, cycles that Ascend's compiler
    lets them take, kernels that it refuses (both 0 where it is not installed), bytes that the case holds at most,
    milliseconds of processor time of a call, and seconds of compiling.
    """

    launches: int
    bytes: int
    cycles: int
    refused: int
    peak: int
    milliseconds: float
    seconds: float


def run_case(name: str, build: Callable[[str], Built], outcome: Outcome, say: Callable[[str], None]) -> Outcome:
    """Fills in `outcome.passes`: a measurement each for "all", "none" and each pass without which something changes."""
    from inductor_npu import config
    from inductor_npu.lowering.graph_passes.passes import PASSES

    train = name.endswith(TRAINING)
    torch.manual_seed(0)
    say(BUILD)
    try:
        built = built_in_mode(name, build)
        with _counted() as rewrites:
            outcome.passes[ALL] = _measured(built, train)
    except Exception as error:  # noqa: BLE001 - not a case for this: the outcome says why
        outcome.reason, outcome.stage = first_line(error), BUILD
        return outcome
    optional = [each.name for each in PASSES if each.optional]
    fired = [each for each in optional if rewrites.get(each)]
    for without in fired and [*fired, NONE]:
        say(f"without {without}")
        others = NONE if without == NONE else ",".join(each for each in optional if each != without)
        with config.patch(graph_passes=others):
            outcome.passes[without] = _measured(built, train)
    if fired:  # anew: the first compile of a model reads what the others find read
        say(ALL)
        outcome.passes[ALL] = _measured(built, train)
    outcome.verdict, outcome.stage = Verdict.PASSED, ""
    return outcome


@contextlib.contextmanager
def _counted() -> Iterator[dict[str, int]]:
    """How often each pass rewrites something meanwhile, by its name."""
    from inductor_npu.lowering.graph_passes.passes import PASSES

    counts: dict[str, int] = {}
    before = {each.name: each.apply for each in PASSES}

    def counting(name: str) -> Callable[[torch.fx.Graph], int]:
        def apply(graph: torch.fx.Graph) -> int:
            count = before[name](graph)
            counts[name] = counts.get(name, 0) + count
            return count

        return apply

    for each in PASSES:
        each.apply = counting(each.name)
    try:
        yield counts
    finally:
        for each in PASSES:
            each.apply = before[each.name]


def _measured(built: Built, train: bool) -> dict[str, float]:
    import inductor_npu
    from inductor_npu.ascend.collect.afresh import compiled_afresh

    model = placed(copy.deepcopy(built.model), "npu")
    function = torch.compile(model)

    def once() -> float:
        inputs = Built(model, *moved((built.args, built.kwargs), "npu"))
        torch.npu.synchronize()
        start = processor_seconds()
        call(function, inputs, train)
        torch.npu.synchronize()
        return processor_seconds() - start

    with compiled_afresh():
        with inductor_npu.record_explanation() as recorded:
            first = once()
        best = min(once() for _ in range(CALLS))
        inputs = Built(model, *moved((built.args, built.kwargs), "npu"))
        most = peak.peak_of(lambda: call(function, inputs, train), "npu")
    seen = recorded.explanation
    return vars(
        Measured(
            sum(each.launches for each in seen.kernels),
            sum((each.bytes_read or 0) + (each.bytes_written or 0) for each in seen.kernels),
            *_on_ascend(lambda: call(torch.compile(model), inputs, train)),
            peak.held(built) + most,
            round(1e3 * best, 2),
            round(first - best, 2),
        )
    )


def _on_ascend(program: Callable[[], object]) -> tuple[int, int]:
    """Cycles of the kernels that `program` launches, and how many are refused; zeros without Ascend's compiler."""
    from inductor_npu.ascend import check
    from inductor_npu.ascend.environment import find_environment
    from inductor_npu.errors import AscendPlatformError, NoAscendEnvironmentError

    try:
        find_environment()
    except (AscendPlatformError, NoAscendEnvironmentError):
        return 0, 0
    rows = check(program, jobs=1).rows
    return sum(row.cost or 0 for row in rows), sum(row.refusal is not None for row in rows)


# -- what is worth its place ------------------------------------------------------------------------------------------


def table(outcomes: Iterable[Outcome]) -> Table:
    """A row a pass: cases that it rewrites, and what each measurement is with it, as a share of what it is without; the
    geometric mean, the least and the greatest; and whether it keeps its place.
    """
    measured = [(one.case, one.passes) for one in outcomes if one.passes]
    made = Table("Pass", "Cases", *_FIELDS, f"gains {SHARE:.0%}", f"loses {SHARE:.0%}")
    for name in dict.fromkeys(each for _, passes in measured for each in passes if each != ALL):
        cases = [(case, passes[ALL], passes[name]) for case, passes in measured if name in passes]
        shares = {one: [_share(given, without, one) for _, given, without in cases] for one in _FIELDS}
        gains = [case for case, given, without in cases if any(_share(given, without, k) <= 1 - SHARE for k in _KEPT)]
        loses = [case for case, given, without in cases if any(_share(given, without, k) >= 1 + SHARE for k in _KEPT)]
        cells = [f"{_mean(each):.3f} ({min(each):.2f} to {max(each):.2f})" for each in shares.values()]
        made.add_row(name, str(len(cases)), *cells, _some(gains), _some(loses))
    return made


_FIELDS = tuple(each.name for each in fields(Measured))


def _share(given: dict[str, float], without: dict[str, float], field: str) -> float:
    return (given[field] or 1) / (without[field] or 1)


def _mean(shares: list[float]) -> float:
    return math.exp(sum(math.log(max(each, 1e-3)) for each in shares) / len(shares))


def _some(cases: list[str]) -> str:
    return f"{len(cases)}: {', '.join(cases[:4])}" if cases else "0"
