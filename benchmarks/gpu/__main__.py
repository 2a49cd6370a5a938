"""Measures the device `npu` of provider `cuda` against stock Inductor and eager PyTorch on the same GPU.

python -m benchmarks.gpu                            everything: kernels, models, kernelbench, small, launches, compile
python -m benchmarks.gpu --seconds 500              what fits into so many seconds, in this order
python -m benchmarks.gpu --go-on                    the rest of the run that --out holds, on the same GPU
python -m benchmarks.gpu --groups models compile    these groups only
python -m benchmarks.gpu --only softmax "rms norm"  cases with one of these in their name
python -m benchmarks.gpu --groups kernelbench --shard 1/2   half of KernelBench, if it is on this disk
python -m benchmarks.gpu --profile --only MiniLM    and what the device ran, by kernel, in a file of its own
python -m benchmarks.gpu --target NAME              ours with the facts of this chip (INDUCTOR_NPU_TARGET)
python -m benchmarks.gpu --document FILE            puts what FILE holds into docs/benchmarks.md, and measures nothing
python -m benchmarks.gpu --stock cpu --scale 0.001  a rehearsal without a GPU: the embedded NPU beside the CPU
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.gpu import cold, profiles, report
from benchmarks.gpu.case import GROUPS, Setup
from benchmarks.gpu.process import ROOT, Pair, WorkerError
from tests.part import Part

# What a case takes on a GPU, until one of its group was measured; and what it may take.
GUESS = {"kernels": 6, "models": 40, "kernelbench": 10, "small": 15, "launches": 20, "compile": 60}
LIMIT = {"kernels": 90, "models": 240, "kernelbench": 180, "small": 120, "launches": 120, "compile": 600}


class Run:
    """One run: asks for case after case, and keeps what is measured."""

    def __init__(self, arguments: argparse.Namespace, setup: Setup) -> None:
        self._arguments, self._setup = arguments, setup
        self._began = time.monotonic()
        self._took: dict[str, list[float]] = {group: [] for group in GROUPS}
        self._content: dict[str, Any] = {
            "machine": {},
            "gpu": "",
            "bandwidth": {},
            "setup": asdict(setup),
            "results": [],
        }
        self._part = Part.parse(arguments.shard)
        self._before = _read(arguments.out) if arguments.go_on else None

    def __call__(self) -> int:
        """The exit status: 1 where a case failed or has wrong values."""
        if self._before is None:
            self._profiles.unlink(missing_ok=True)
        with Pair(self._setup, self._arguments.out.with_suffix("")) as pair:
            self._measure_all(pair)
        self._save()
        _say(f"\n{report.markdown(self._content)}\nSaved in {self._arguments.out} and beside it as .md")
        results = self._content["results"]
        return int(any(result["status"] == "failed" or result.get("differs") for result in results))

    def _measure_all(self, pair: Pair) -> None:
        try:
            pair.start()
        except WorkerError as error:
            _say(f"A process that measures did not start: {error}")
        told = pair.machine()
        self._content |= {fact: told[fact] for fact in ("machine", "gpu", "bandwidth")}
        known = self._measured_before()
        self._content["results"] = list(known.values())
        if "broken" in told:
            _say(f"The copy on the device failed: {told['broken']}")
        _say(report.machine_line(self._content))
        group = ""
        for name in filter(self._is_asked_for, [*pair.cases, *cold.measures()]):
            if name in known:
                continue
            result = self._result_of(name, pair)
            if result["group"] != group:
                group = result["group"]
                _say(f"{'':5}    {report.header_line(group)}")
            self._keep_profiles(result)
            self._content["results"].append(result)
            self._save()
            _say(f"{time.monotonic() - self._began:5.0f} s  {report.line(result, self._content)}")

    def _measured_before(self) -> dict[str, dict[str, Any]]:
        """What the run so far has measured, by the full name. Raises SystemExit for a run on another GPU: times of two
        are not compared.
        """
        if self._before is None:
            return {}
        for fact in ("machine", "gpu", "setup"):
            if self._before.get(fact) != self._content[fact]:
                raise SystemExit(
                    f"{self._arguments.out} cannot go on: its {fact} is {self._before.get(fact)}, here it is "
                    f"{self._content[fact]}. Measure on one GPU, with one setup, or leave --go-on out"
                )
        measured = (result for result in self._before["results"] if result["status"] == "measured")
        return {f"{result['group']}: {result['name']}": result for result in measured}

    def _is_asked_for(self, name: str) -> bool:
        only = self._arguments.only
        if name.partition(":")[0] not in self._arguments.groups or not self._part.holds(name):
            return False
        return not only or any(part in name for part in only)

    def _left(self) -> float:
        return (self._arguments.seconds or float("inf")) - (time.monotonic() - self._began)

    def _result_of(self, name: str, pair: Pair) -> dict[str, Any]:
        group, _, case = name.partition(": ")
        known = {"group": group, "name": case}
        took = self._took[group]
        expected = sum(took) / len(took) if took else GUESS[group]
        if self._setup.is_rehearsal and not took:
            expected = 0
        if expected > self._left():
            return {
                **known,
                "status": "skipped",
                "reason": f"about {expected:.0f} s, and {self._left():.0f} s are left",
            }
        began = time.monotonic()
        try:
            numbers = self._numbers(name, pair, min(LIMIT[group], max(self._left(), 1)))
        except (WorkerError, cold.StartError) as error:
            return {**known, "status": "failed", "reason": str(error), "took": time.monotonic() - began}
        took.append(time.monotonic() - began)
        return {**known, "status": "measured", **numbers, "took": took[-1]}

    def _numbers(self, name: str, pair: Pair, seconds: float) -> dict[str, Any]:
        if name not in cold.measures():
            return pair.measure(name, seconds)
        pair.end()  # the processes that start now have the machine for themselves
        return cold.measures()[name](self._setup)

    def _keep_profiles(self, result: dict[str, Any]) -> None:
        """Moves what the device ran from the result to a file beside the tables."""
        found = [number for number in result if number.endswith("_profile")]
        tables = [
            profiles.table(f"{result['name']}, {number.removesuffix('_profile')}", map(profiles.Row._make, rows))
            for number in found
            if (rows := result.pop(number))
        ]
        if tables:
            with self._profiles.open("a") as file:
                file.write("\n".join([*tables, ""]))

    @property
    def _profiles(self) -> Path:
        return self._arguments.out.with_suffix(".profiles.md")

    def _save(self) -> None:
        out = self._arguments.out
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(self._content, indent=1) + "\n")
        out.with_suffix(".md").write_text(report.markdown(self._content))


def _read(file: Path) -> dict[str, Any]:
    if not file.exists():
        raise SystemExit(f"there is no run to go on with: {file} does not exist")
    return json.loads(file.read_text())


def _say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Measures, prints and saves."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", nargs="+", default=list(GROUPS), choices=list(GROUPS))
    parser.add_argument("--only", nargs="+", action="extend", default=[], help="cases with one of these in their name")
    parser.add_argument("--shard", default="1/1", help="K/N: share K of N of the cases, by their names")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench" / "gpu.json")
    parser.add_argument("--go-on", action="store_true", help="keep what --out holds of the same GPU and setup")
    parser.add_argument(
        "--seconds", type=float, default=0, help="leave out what does not fit into so many (0: no limit)"
    )
    parser.add_argument("--rounds", type=int, default=7, help="turns of each side")
    parser.add_argument("--repeats", type=int, default=1, help="cold starts of each side")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)), help="processes that compile")
    parser.add_argument("--ours", default="npu")
    parser.add_argument("--stock", default="cuda")
    parser.add_argument("--target", default="", help="the chip of ours, in place of the one that is found")
    parser.add_argument("--scale", type=float, default=1.0, help="sizes, as a part of those that fill a GPU")
    parser.add_argument(
        "--profile",
        dest="profiled",
        action="store_true",
        help="also what the device runs, by kernel; what is timed afterwards takes longer",
    )
    parser.add_argument("--document", type=Path, help="a file of an earlier run, for docs/benchmarks.md")
    arguments = parser.parse_args()
    if arguments.document:
        report.write_document(json.loads(arguments.document.read_text()))
        return 0
    if arguments.stock == "cuda":
        os.environ.setdefault("INDUCTOR_NPU_PROVIDER", "cuda")
    named = ("ours", "stock", "target", "scale", "rounds", "repeats", "workers", "profiled")
    run = Run(arguments, Setup(**{name: getattr(arguments, name) for name in named}))
    return run()


if __name__ == "__main__":
    sys.exit(main())
