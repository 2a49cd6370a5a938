"""Programs of several ranks at the seat, each a process of its own, which meet over loopback as torchrun's do."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.ascend_seat.processes import PROGRAM
from tests.processes import Finished

# What the ranks have before their own lines: the process group, and which of them each is.
_RANK = """
import os
import torch
import torch.distributed as dist

rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
torch.npu.set_device(rank)
dist.init_process_group("hccl")
"""
_END = """
dist.destroy_process_group()
print("ended")
"""


@dataclass
class Rank:
    """A process that runs; `folder` has its output."""

    process: subprocess.Popen[bytes]
    folder: Path

    def output(self) -> Finished:
        """What it has written so far, with 0 as its status while it runs."""
        texts = ((self.folder / name).read_text(errors="replace") for name in ("stdout", "stderr"))
        return Finished(self.process.poll() or 0, *texts)

    def wait_for(self, line: str, timeout: float) -> None:
        """Until it has printed `line`. Raises AssertionError if it ends before, or `timeout` seconds pass."""
        deadline = time.monotonic() + timeout
        while line not in self.output().stdout.splitlines():
            assert self.process.poll() is None and time.monotonic() < deadline, self.output()
            time.sleep(0.1)

    def kill(self) -> None:
        """At once, with all processes that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def left_behind(self) -> list[int]:
        """Processes of its session that still run."""
        return [int(path.name) for path in Path("/proc").glob("[0-9]*") if _session(path) == self.process.pid]


@contextlib.contextmanager
def started(code: str, ranks: int = 2, **environment: str) -> Iterator[list[Rank]]:
    """Processes that run `code` (not indented) as ranks of one group; all are killed at the end, whatever happens."""
    variables = {
        "INDUCTOR_NPU_PROVIDER": "",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(_free_port()),
        "WORLD_SIZE": str(ranks),
        "LOCAL_WORLD_SIZE": str(ranks),
        "STANDIN_DEVICES": str(ranks),
        "OMP_NUM_THREADS": "1",
        **environment,
    }
    running: list[Rank] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for rank in range(ranks):
                own = Path(folder, str(rank))
                own.mkdir()
                with (own / "stdout").open("wb") as stdout, (own / "stderr").open("wb") as stderr:
                    process = subprocess.Popen(
                        [sys.executable, "-c", PROGRAM + _RANK + code + _END],
                        env={**os.environ, **variables, "RANK": str(rank), "LOCAL_RANK": str(rank)},
                        stdin=subprocess.DEVNULL,
                        stdout=stdout,
                        stderr=stderr,
                        start_new_session=True,
                    )
                running.append(Rank(process, own))
            yield running
        finally:
            for each in running:
                each.kill()


def run_ranks(code: str, ranks: int = 2, timeout: float = 300, **environment: str) -> list[list[str]]:
    """The lines that each rank of `code` printed. Raises AssertionError if one fails, or `timeout` seconds pass."""
    deadline = time.monotonic() + timeout
    with started(code, ranks, **environment) as running:
        while any(rank.process.poll() is None for rank in running):
            done = [rank.output() for rank in running]
            failed = any(one.returncode for one in done)
            assert not failed and time.monotonic() < deadline, "\n\n".join(
                f"{one.stdout}\n{one.stderr}" for one in done
            )
            time.sleep(0.1)
        lines = [rank.output().lines() for rank in running]
        assert [each.pop() for each in lines] == ["ended"] * ranks
        return lines


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _session(path: Path) -> int | None:
    """The session of a process of /proc that runs; None for one that has ended."""
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[3])
