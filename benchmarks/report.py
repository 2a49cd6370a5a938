"""Prints results as tables, keeps them as JSON and puts them into docs/benchmarks.md."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from benchmarks.collectives import CollectiveTime
from benchmarks.compile_time import PHASES_OF, CompileTime
from benchmarks.data_parallel import EXAMPLES, LAYERS, WIDTH, DataParallelTime
from benchmarks.decoding import Decoding
from benchmarks.host_time import HostTime
from benchmarks.noise import LARGEST_SHARE
from benchmarks.run_time import RunTime
from benchmarks.timing import geometric_mean
from inductor_npu.diagnostics.compile_time.phases import Phase

DOCUMENT = Path(__file__).resolve().parents[1] / "docs" / "benchmarks.md"


class Section(Enum):
    """A measured part of the document, by what its marks call it; each may be of another run."""

    ONE_PROCESS = "tables"
    RANKS = "collectives"


Rows = list[tuple[str, ...]]


@dataclass
class Report:
    """All that one run of the benchmarks measured, and what failed."""

    run_times: list[RunTime] = field(default_factory=list)
    compile_times: list[CompileTime] = field(default_factory=list)
    launch_times: dict[str, float] = field(default_factory=dict)
    host_times: list[HostTime] = field(default_factory=list)
    decoding: list[Decoding] = field(default_factory=list)
    collectives: list[CollectiveTime] = field(default_factory=list)
    data_parallel: list[DataParallelTime] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    others: float = 0.0  # the share of the machine that other programs took

    def tables(self, section: Section) -> list[tuple[str, tuple[str, ...], Rows]]:
        """Title, header and rows of each table that has rows."""
        if section is Section.RANKS:
            tables = [
                ("Collectives (lower is better)", COLLECTIVES_HEADER, self._collective_rows()),
                ("A training step of two ranks (lower is better)", STEP_HEADER, self._step_rows()),
            ]
            return [table for table in tables if table[2]]
        tables = [
            ("Run time (higher is better)", RUN_HEADER, self._run_rows()),
            ("Cold compile time (lower is better)", COMPILE_HEADER, self._compile_rows()),
            ("Warm start in a new process (lower is better)", WARM_HEADER, self._warm_rows()),
            *self._phase_tables(),
            ("Host time of a launch with four arguments", ("Launched by", "us"), self._launch_rows()),
            ("A call of a compiled function with small kernels, in us", HOST_HEADER, self._host_rows()),
            ("Decoding, in tokens per second (higher is better)", DECODING_HEADER, self._decoding_rows()),
            ("Failed", ("Case", "Reason"), list(self.failures.items())),
        ]
        return [table for table in tables if table[2]]

    def _run_rows(self) -> Rows:
        rows = [
            (
                result.name if result.correct else f"{result.name} (WRONG VALUES)",
                _milliseconds(result.npu),
                _milliseconds(result.eager),
                _milliseconds(result.inductor),
                f"{result.against_eager:.2f}",
                f"{result.against_inductor:.2f}",
            )
            for result in self.run_times
        ]
        if rows:
            rows.append(("geometric mean", "", "", "", *self._each_ratio(geometric_mean)))
            rows.append(("minimum", "", "", "", *self._each_ratio(min)))
        return rows

    def _each_ratio(self, summarize: Any) -> tuple[str, str]:
        eager = summarize([result.against_eager for result in self.run_times])
        inductor = summarize([result.against_inductor for result in self.run_times])
        return f"{eager:.2f}", f"{inductor:.2f}"

    def _compile_rows(self) -> Rows:
        rows = [
            (result.name, f"{result.cold.seconds:.2f}", f"{result.inductor.seconds:.2f}", f"{result.ratio:.2f}")
            for result in self.compile_times
        ]
        if rows:
            ratios = [result.ratio for result in self.compile_times]
            rows.append(("geometric mean", "", "", f"{geometric_mean(ratios):.2f}"))
            if aimed := [result.ratio for result in self.compile_times if _is_aimed_at(result)]:
                rows.append((AIMED_AT_HEADER, "", "", f"{geometric_mean(aimed):.2f}"))
            rows.append(("maximum", "", "", f"{max(ratios):.2f}"))
        return rows

    def _warm_rows(self) -> Rows:
        rows: Rows = [
            (
                result.name,
                f"{result.cold.first_call:.2f}",
                f"{result.warm.first_call:.2f}",
                f"{result.warm_ratio:.0%}",
                f"{result.cold.kernels_compiled} / {result.warm.kernels_compiled}",
                ", ".join(map(str, result.kernels_of_further_layers)),
            )
            for result in self.compile_times
        ]
        if rows:
            ratios = [result.warm_ratio for result in self.compile_times]
            rows.append(("geometric mean", "", "", f"{geometric_mean(ratios):.0%}", "", ""))
            if aimed := [result.warm_ratio for result in self.compile_times if _is_aimed_at(result)]:
                rows.append((AIMED_AT_HEADER, "", "", f"{geometric_mean(aimed):.0%}", "", ""))
            rows.append(("maximum", "", "", f"{max(ratios):.0%}", "", ""))
        return rows

    def _phase_tables(self) -> list[tuple[str, tuple[str, ...], Rows]]:
        """Seconds in each phase, cold and warm, of some cases."""
        shown = [result for result in self.compile_times if result.name in PHASES_OF]
        return [(f"Where the time goes: {result.name}", PHASE_HEADER, _phase_rows(result)) for result in shown]

    def _launch_rows(self) -> Rows:
        return [(name, f"{seconds * 1e6:.2f}") for name, seconds in self.launch_times.items()]

    def _host_rows(self) -> Rows:
        rows = []
        for each in self.host_times:
            ours = (each.default, each.captured, each.replay, each.queued)
            columns = (*ours, each.inductor, each.eager, each.dynamo)
            rows.append((str(each.kernels), *(f"{seconds * 1e6:.1f}" for seconds in columns)))
        return rows

    def _decoding_rows(self) -> Rows:
        return [
            (
                "Llama, 4 layers of 256, static cache" + ("" if each.correct else " (WRONG VALUES)"),
                *(f"{rate:.0f}" for rate in (each.captured, each.default, each.inductor, each.eager)),
                str(each.recompiles),
            )
            for each in self.decoding
        ]

    def _collective_rows(self) -> Rows:
        rows: Rows = [
            (
                each.name if each.correct else f"{each.name} (WRONG VALUES)",
                str(each.ranks),
                _size(each.size),
                *(f"{seconds * 1e6:.0f}" for seconds in (each.npu, each.gloo)),
                f"{each.ratio:.2f}",
                *(f"{seconds * 1e6:.0f}" for seconds in (each.npu_queued, each.gloo_queued)),
                f"{each.queued_ratio:.2f}",
            )
            for each in self.collectives
        ]
        if rows:
            for name, summarize in (("geometric mean", geometric_mean), ("maximum", max)):
                one = summarize([each.ratio for each in self.collectives])
                queued = summarize([each.queued_ratio for each in self.collectives])
                rows.append((name, "", "", "", "", f"{one:.2f}", "", "", f"{queued:.2f}"))
        return rows

    def _step_rows(self) -> Rows:
        return [
            (
                STEP + ("" if each.correct else " (WRONG VALUES)"),
                *(f"{seconds * 1e3:.1f}" for seconds in (each.compiled, each.eager)),
                f"{each.ratio:.2f}",
                *(f"{seconds * 1e3:.1f}" for seconds in (each.collectives, each.overlap)),
            )
            for each in self.data_parallel
        ]


COLLECTIVES_HEADER = (
    "Collective",
    "ranks",
    "size",
    "npu us",
    "gloo us",
    "ratio",
    "npu, queued",
    "gloo, queued",
    "ratio",
)
STEP = f"{LAYERS} layers of {WIDTH}, {EXAMPLES} examples a rank"
STEP_HEADER = ("Model", "npu compiled ms", "eager CPU ms", "ratio", "all_reduce ms", "of these beside kernels")
HOST_HEADER = ("Kernels", "default", "captured", "replay", "queued", "Inductor CPU", "eager CPU", "Dynamo alone")
DECODING_HEADER = ("Model", "captured", "default", "Inductor CPU", "eager CPU", "recompiles")
RUN_HEADER = ("Case", "npu ms", "eager CPU ms", "Inductor CPU ms", "x eager", "x Inductor")
COMPILE_HEADER = ("Case", "npu s", "Inductor CPU s", "npu / Inductor")
WARM_HEADER = ("Case", "cold s", "warm s", "warm / cold", "kernels compiled, cold / warm", "by each further layer")
PHASE_HEADER = ("Phase", "cold s", "warm s")
# The models for which the times of compiling that are wanted are said (docs/benchmarks.md).
AIMED_AT = ("minilm", "gpt2", "resnet")
AIMED_AT_HEADER = "geometric mean of MiniLM, GPT-2 and ResNet"


def _is_aimed_at(result: CompileTime) -> bool:
    return result.name.startswith(AIMED_AT)


def _phase_rows(result: CompileTime) -> Rows:
    names = [phase.value for phase in Phase if phase.value in {**result.cold.phases, **result.warm.phases}]
    rows: Rows = [
        (name, *(f"{start.phases.get(name, 0.0):.2f}" for start in (result.cold, result.warm))) for name in names
    ]
    rows.append(("all", *(f"{sum(start.phases.values()):.2f}" for start in (result.cold, result.warm))))
    return rows


def show(report: Report, console: Console) -> None:
    """Prints all tables."""
    for title, header, rows in (table for section in Section for table in report.tables(section)):
        table = Table(title=title, title_justify="left")
        for index, column in enumerate(header):
            table.add_column(column, justify="left" if index == 0 else "right")
        for row in rows:
            table.add_row(*row)
        console.print(table)


def save(report: Report, path: Path) -> None:
    """Writes everything measured, with the machine it was measured on, as JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": machine(),
        "run_times": [result.to_json() for result in report.run_times],
        "compile_times": [result.to_json() for result in report.compile_times],
        "launch_times": report.launch_times,
        "host_times": [each.to_json() for each in report.host_times],
        "decoding": [each.to_json() for each in report.decoding],
        "collectives": [each.to_json() for each in report.collectives],
        "data_parallel": [each.to_json() for each in report.data_parallel],
        "failures": report.failures,
    }
    path.write_text(json.dumps(content, indent=2) + "\n")


def write_document(report: Report, sections: set[Section]) -> None:
    """Replaces the measured `sections` of docs/benchmarks.md."""
    for section in sections:
        begin, end = (f"<!-- {edge} of the measured {section.value} -->" for edge in ("begin", "end"))
        before, _, rest = DOCUMENT.read_text().partition(begin)
        _, _, after = rest.partition(end)
        facts = ", ".join(f"{key} {value}" for key, value in machine().items())
        busy = f" Other programs took {report.others:.0%} of the cores." if report.others > LARGEST_SHARE else ""
        measured = [f"Measured on {facts}.{busy}", ""]
        for title, header, rows in report.tables(section):
            measured += [f"### {title}", "", *_markdown(header, rows), ""]
        DOCUMENT.write_text(before + begin + "\n" + "\n".join(measured) + end + after)


def machine() -> dict[str, str]:
    """What the numbers depend on."""
    import triton

    return {
        "torch": torch.__version__,
        "triton": triton.__version__,
        "python": platform.python_version(),
        "processor": f"{_processor()} ({torch.backends.cpu.get_cpu_capability()})",
        "threads": str(torch.get_num_threads()),
        "cores": str(len(os.sched_getaffinity(0))),
    }


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _markdown(header: Sequence[str], rows: Rows) -> list[str]:
    lines = ["| " + " | ".join(header) + " |", "| --- |" + " ---: |" * (len(header) - 1)]
    return lines + ["| " + " | ".join(row) + " |" for row in rows]


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:.3f}"


def _size(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"
