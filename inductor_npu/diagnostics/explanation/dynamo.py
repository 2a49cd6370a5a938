"""Reads Dynamo's records of graph breaks and recompiles."""

from __future__ import annotations

import json
import linecache
import re
from collections.abc import Sequence

from inductor_npu.codegen.annotations.provenance import Line
from inductor_npu.diagnostics.explanation.data import GraphBreak, grouped

_BREAK = re.compile(r"Graph break in user code at (?P<file>.*):(?P<line>\d+)\nGraph Break Reason: (?P<reason>.*)")
_SKIP = re.compile(r"Graph break: (?P<reason>.*)")
_FRAME = re.compile(r'^\s*File "(?P<file>.*)", line (?P<line>\d+), in ', re.MULTILINE)
_PART = re.compile(r"^ {2}(?P<kind>Explanation|Hint|Developer debug context): ", re.MULTILINE)
# What follows the explanation and the hints.
_END = re.compile(r"^(?: ?For more details about this graph break|User code traceback:|from user code:)", re.MULTILINE)
_COMPILE_ID = re.compile(r"^(?:(?:!\d+|\d+/\d+|!\d+/\d+/\d+): )+")


def line_of(file: str, line: int) -> Line:
    """A line of the user's source with its text, "" where the file is gone."""
    return Line(file, line, linecache.getline(file, line).strip())


def graph_breaks(texts: Sequence[str]) -> tuple[GraphBreak, ...]:
    """The breaks that Dynamo's `texts` tell, one for each line and reason."""
    found = [each for text in texts if (each := _graph_break(text)) is not None]
    return tuple(
        GraphBreak(same[0].reason, same[0].explanation, same[0].hints, same[0].line, len(same))
        for same in grouped(found, lambda each: (each.reason, each.line))
    )


def _graph_break(text: str) -> GraphBreak | None:
    """The break that `text` tells; None for one that another text tells again, with its place."""
    match = _BREAK.match(text)
    if match is not None:
        place: Line | None = line_of(match["file"], int(match["line"]))
    else:
        match = _SKIP.match(text)
        frames = list(_FRAME.finditer(text.partition("Traceback (most recent call last)")[0]))
        if match is None:
            return None
        place = line_of(frames[-1]["file"], int(frames[-1]["line"])) if frames else None
    parts = _parts(text[match.end() :])
    return GraphBreak(
        _reason(text[match.start("reason") :]),
        " ".join(text for kind, text in parts if kind == "Explanation"),
        tuple(text for kind, text in parts if kind == "Hint"),
        place,
        1,
    )


def _reason(text: str) -> str:
    """The last line before the explanation: those before it say at which kind of instruction it happened."""
    explained = _PART.search(text)
    lines = [
        line.strip() for line in (text[: explained.start()] if explained else text.partition("\n")[0]).splitlines()
    ]
    return [line for line in lines if line][-1]


def _parts(text: str) -> list[tuple[str, str]]:
    """What stands below the reason, each as (kind, text in one line)."""
    end = _END.search(text)
    text = text[: end.start()] if end else text
    starts = [*_PART.finditer(text)]
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return [(start["kind"], " ".join(text[start.end() : end].split())) for start, end in zip(starts, ends)]


def guards(payload: str) -> tuple[str, ...]:
    """The guards that failed, from the reasons that Dynamo gives: a list as JSON, or the one there is."""
    reasons = json.loads(payload) if payload.startswith("[\n") else [payload]
    return tuple(_guard(reason) for reason in reasons)


def _guard(reason: str) -> str:
    """A reason in one line, without the id of the earlier compile before it, and without the stack behind it."""
    return " ".join(_COMPILE_ID.sub("", reason).partition("\nUser stack trace:")[0].split())
