"""Listens to torch's structured trace, the log that `TORCH_TRACE` writes and tlparse reads, and makes an explanation.

That log records each event once, in order: the reasons of graph breaks and recompiles, which caches were asked, and the
code of each graph, from a cache or not. Outside of a record nobody listens, and nothing is logged.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from inductor_npu.cache import misses
from inductor_npu.codegen.annotations.provenance import Line
from inductor_npu.diagnostics.compile_time.record import CompileTimes, compile_times, record_compile_times
from inductor_npu.diagnostics.explanation import dynamo, generated
from inductor_npu.diagnostics.explanation.data import (
    Arithmetic,
    CacheLookups,
    Captured,
    EagerFunction,
    Graph,
    Observed,
    Pass,
    Recompile,
)
from inductor_npu.diagnostics.explanation.explanation import Explanation
from inductor_npu.runtime.graph_capture.statistics import CaptureStatistics, graph_captures

# The logger is torch's own; torch tells it nothing while it has no handlers.
_TRACE = "torch.__trace"
_CODE, _METRICS, _ARTIFACT = "inductor_output_code", "compilation_metrics", "artifact"
_BREAK, _RECOMPILE = "dynamo_graph_break_reason", "recompile_reasons"
AOT_AUTOGRAD, FX_GRAPH, KERNELS = "AOTAutograd", "FX graph", "npu kernels"
_CACHES = {"aotautograd_cache_": AOT_AUTOGRAD, "fx_graph_cache_": FX_GRAPH, "fx_graph_bundled_cache_": FX_GRAPH}
_FOUND, _MISSED, _BYPASSED = "hit", "miss", "bypass"
# Where Python objects are in memory.
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


@dataclass(frozen=True)
class _Told:
    """One entry of the trace: `name` is the artifact's if it is one; `fields` are its metadata."""

    compile_id: str
    name: str
    fields: dict[str, Any]
    payload: str


class Recorder(logging.Handler):
    """Keeps what the trace tells from `start` to `stop`, as it is: reading it is left until somebody asks."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self._told: list[_Told] = []
        self._captures_before: dict[str, CaptureStatistics] = {}
        self._misses_before = 0

    def start(self) -> None:
        """From now on the trace is kept. Compiling takes longer until `stop`: torch prints its graphs for the trace."""
        self._misses_before = len(misses.since())
        self._captures_before = graph_captures()
        logging.getLogger(_TRACE).addHandler(self)

    def stop(self) -> None:
        """What comes now is not kept; calling it again changes nothing."""
        logging.getLogger(_TRACE).removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Called by torch for each entry."""
        metadata: dict[str, Any] = record.metadata  # type: ignore[attr-defined]
        for kind in (_CODE, _METRICS, _ARTIFACT):
            if kind in metadata:
                name = metadata[kind]["name"] if kind == _ARTIFACT else kind
                if kind != _ARTIFACT or name in (_BREAK, _RECOMPILE) or _cache_of(name) is not None:
                    payload = record.payload or ""  # type: ignore[attr-defined]
                    self._told.append(_Told(_compile_id(metadata), name, metadata[kind], payload))

    def has_heard(self) -> bool:
        """Whether there was anything to keep."""
        return bool(self._told)

    def arithmetic(self) -> Arithmetic:
        """Who does the arithmetic of the graphs that were kept."""
        return Observed(_graphs(list(self._told))).arithmetic

    def explanation(self, times: CompileTimes) -> Explanation:
        """What was kept, with `times`, those of the same compiles."""
        told = list(self._told)
        return Explanation(
            _graphs(told),
            dynamo.graph_breaks([each.payload for each in told if each.name == _BREAK]),
            tuple(
                Recompile(each.compile_id, *_function(told, place), dynamo.guards(each.payload))
                for place, each in enumerate(told)
                if each.name == _RECOMPILE
            ),
            tuple(
                dict.fromkeys(
                    EagerFunction(*_function(told, place), _failure(each.fields))
                    for place, each in enumerate(told)
                    if each.name == _METRICS and each.fields.get("fail_type")
                )
            ),
            (
                _lookups(AOT_AUTOGRAD, told),
                _lookups(FX_GRAPH, told),
                _kernel_lookups(times, misses.since(self._misses_before)),
            ),
            _captured_since(self._captures_before),
            times,
        )


@dataclass
class Recorded:
    """What `record_explanation` gives: `explanation` is there when its block has ended, and without graphs before."""

    explanation: Explanation = field(default_factory=Explanation)


@contextlib.contextmanager
def record_explanation() -> Iterator[Recorded]:
    """Observes what is compiled inside the `with` block: `explanation` of what it gives has it at the block's end."""
    recorded, recorder = Recorded(), Recorder()
    recorder.start()
    try:
        with record_compile_times() as times:
            yield recorded
    finally:
        recorder.stop()
        recorded.explanation = recorder.explanation(times)


def so_far(recorder: Recorder) -> Explanation:
    """What `recorder`, started with the process, has kept."""
    return recorder.explanation(compile_times())


def _compile_id(metadata: dict[str, Any]) -> str:
    """As torch writes it: 0/1, and !2/0/1 where compiled autograd had a part in it."""
    autograd, frame = metadata.get("compiled_autograd_id"), metadata.get("frame_id")
    parts = [*([] if autograd is None else [f"!{autograd}"])]
    parts += [] if frame is None else [str(frame), str(metadata.get("frame_compile_id"))]
    return "/".join(parts)


# ---- captured graphs


def _captured_since(before: Mapping[str, CaptureStatistics]) -> tuple[Captured, ...]:
    captured = []
    for function, now in graph_captures().items():
        if (new := now.since(before.get(function, CaptureStatistics()))).calls:
            captured.append(
                Captured(function, new.warmed_up, new.captured, new.replayed, tuple(new.skipped.most_common()))
            )
    return tuple(captured)


# ---- graphs


def _graphs(told: Sequence[_Told]) -> tuple[Graph, ...]:
    """A graph for each generated module; that it was found in a cache is told next, after its code."""
    graphs: list[Graph] = []
    for place, each in enumerate(told):
        if each.name == _CODE:
            module = generated.read(each.payload)
            function, line = _function(told, place, module.pass_ is Pass.BACKWARD)
            calls = module.kernels, module.library_calls, module.left_to_eager, module.compiled_without
            graphs.append(Graph(each.compile_id, module.pass_, function, line, False, *calls))
        elif _cache_of(each.name) == FX_GRAPH and each.name.endswith(_FOUND):
            last = max((at for at, graph in enumerate(graphs) if graph.compile_id == each.compile_id), default=None)
            if last is not None:
                graphs[last] = replace(graphs[last], found=True)
    return tuple(graphs)


def _failure(fields: dict[str, Any]) -> str:
    return f"{fields['fail_type']}: {(fields.get('fail_reason') or '').strip().partition(chr(10))[0]}"


# ---- functions


def _function(told: Sequence[_Told], place: int, late: bool = False) -> tuple[str | None, Line | None]:
    """The function whose compile told the entry at `place`, and its first line.

    Its metrics name it, and are told at its end: after the entry, but for what is compiled later (`late`), such as a
    backward pass. Ids alone do not tell functions apart: after torch.compiler.reset() they begin anew. A compile that
    fails early has metrics without a function; an earlier one of the same function has them.
    """
    # Here, because a record begins while Dynamo is imported.
    from torch._dynamo import external_utils
    from torch._dynamo.utils import get_compilation_metrics

    compile_id = told[place].compile_id
    same = [at for at, each in enumerate(told) if each.name == _METRICS and each.compile_id == compile_id]
    before, after = [at for at in same if at < place], [at for at in same if at >= place]
    chosen = (before[-1:] or after[:1]) if late else (after[:1] or before[-1:])
    candidates = [told[at].fields for at in chosen]
    frame = compile_id.rpartition("/")[0]
    earlier = [vars(each) for each in get_compilation_metrics() if (each.compile_id or "").rpartition("/")[0] == frame]
    for fields in (*candidates, *reversed(earlier)):
        if fields.get("co_name"):
            if fields["co_filename"] == external_utils.__file__:  # it stands for a module of torch's own
                return None, None
            return fields["co_name"], dynamo.line_of(fields["co_filename"], fields["co_firstlineno"])
    return None, None


# ---- caches


def _cache_of(name: str) -> str | None:
    """The cache of which an artifact called `name` tells a lookup."""
    states = (_FOUND, _MISSED, _BYPASSED)
    return next((cache for start, cache in _CACHES.items() if name in [start + state for state in states]), None)


def _lookups(cache: str, told: Sequence[_Told]) -> CacheLookups:
    states = [(each.name.rpartition("_")[2], each.payload) for each in told if _cache_of(each.name) == cache]
    found, missed, bypassed = ([state for state, _ in states].count(one) for one in (_FOUND, _MISSED, _BYPASSED))
    reasons = [_why_not(json.loads(payload)) for state, payload in states if state != _FOUND]
    return CacheLookups(cache, found, missed, bypassed, tuple(reason for reason in reasons if reason))


def _why_not(info: dict[str, Any]) -> str:
    """Why torch did not ask its cache, or could not use what it had; "" where it does not say."""
    if info.get("cache_status_detailed") == "guard_miss":
        return f"kept for other sizes, where {info.get('cache_status_guard_expr')}"
    return " ".join(_ADDRESS.sub("", info.get("cache_bypass_reason") or "").split())


def _kernel_lookups(times: CompileTimes, missed: Sequence[misses.Miss]) -> CacheLookups:
    from inductor_npu.cache import kernels
    from inductor_npu.cache.kernel_key import generated_with
    from inductor_npu.cache.location import kernel_store

    reason = kernels.why_not_used()
    if reason is not None:
        return CacheLookups(KERNELS, times.kernels_found, 0, times.kernels_compiled, (reason,))
    reasons = misses.reasons(kernel_store(), missed, generated_with())
    return CacheLookups(KERNELS, times.kernels_found, times.kernels_compiled, 0, tuple(reasons))
