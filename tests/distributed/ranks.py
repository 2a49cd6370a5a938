"""Processes that are the ranks of a job on this host, and do what a test tells them to.

Whatever happens, a test gets an answer within its time and no process stays: ranks that do not answer are killed, with
those that wait for them, and the next test gets new ones.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from inductor_npu.providers import CUDA, current_provider

GROUP_SECONDS = 60  # how long a collective waits for the other ranks, unless a test says otherwise


def own_device() -> Any:
    """The torch.device npu of this rank: each has its own embedded NPU, and of GPUs the one of its number."""
    import torch

    return torch.device("npu", torch.npu.current_device())


class RankError(AssertionError):
    """A function failed on a rank; the text has the traceback."""


class Ranks:
    """As many processes as `size`, each with torch and an initialised default process group for tensors of npu and of
    the CPU. They start with the first function that they are to run.
    """

    def __init__(self, size: int, group_seconds: float = GROUP_SECONDS) -> None:
        self.size = size
        self._group_seconds = group_seconds
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def run(self, function: Callable[..., Any], *arguments: Any, seconds: float = 120) -> list[Any]:
        """Runs `function(*arguments)`, a function of a module, on every rank at the same time; gives the results by
        rank. Raises RankError with the tracebacks of the ranks that failed, or if a rank did not answer in time.
        """
        answers = self.attempt(function, *arguments, seconds=seconds)
        failures = [f"rank {rank}: {text}" for rank, (succeeded, text) in enumerate(answers) if not succeeded]
        if failures:
            self.stop()
            raise RankError("\n".join(failures))
        return [value for _, value in answers]

    def attempt(self, function: Callable[..., Any], *arguments: Any, seconds: float = 120) -> list[tuple[bool, Any]]:
        """The same, for ranks that may fail: for each whether it succeeded, and its result, its traceback, or how it
        ended.
        """
        if not self._processes:
            self._start()
        deadline = time.monotonic() + seconds
        for connection in self._connections:
            connection.send((function, arguments))
        with ThreadPoolExecutor(self.size) as pool:
            return list(pool.map(lambda rank: self._answer(rank, deadline), range(self.size)))

    def process_ids(self) -> list[int]:
        return [process.pid for process in self._processes]

    def stop(self) -> None:
        """Kills the processes."""
        for process in self._processes:
            process.kill()
            process.join()
        self._processes, self._connections = [], []
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    def _start(self) -> None:
        # CUDA, once started, is of no use in a fork, and the modules that a server of forks imports start it.
        context = multiprocessing.get_context("spawn" if current_provider() is CUDA else "forkserver")
        context.set_forkserver_preload(["torch.distributed", "torch._dynamo", __name__])
        self._folder = tempfile.TemporaryDirectory()
        for rank in range(self.size):
            ours, theirs = context.Pipe()
            arguments = (rank, self.size, str(Path(self._folder.name, "store")), self._group_seconds, theirs)
            process = context.Process(target=_serve, args=arguments, daemon=True)
            process.start()
            theirs.close()
            self._processes.append(process)
            self._connections.append(ours)

    def _answer(self, rank: int, deadline: float) -> tuple[bool, Any]:
        connection = self._connections[rank]
        try:
            if connection.poll(max(0.0, deadline - time.monotonic())):
                return connection.recv()
        except (EOFError, ConnectionResetError):
            self._processes[rank].join()
            return False, f"ended with status {self._processes[rank].exitcode}"
        return False, "gave no answer in time"


def _serve(rank: int, size: int, store: str, group_seconds: float, connection: Connection) -> None:
    import torch
    import torch.distributed as dist

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the tests end us
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(size))
    torch.set_num_threads(1)
    if current_provider() is CUDA:
        torch.npu.set_device(rank)  # processes share GPUs, of which NCCL wants one for each
    dist.init_process_group(
        "cpu:gloo,npu:hccl",
        init_method=f"file://{store}",
        rank=rank,
        world_size=size,
        timeout=timedelta(seconds=group_seconds),
    )
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:
            os._exit(0)
        torch.manual_seed(0)
        torch.compiler.reset()
        try:
            answer = True, function(*arguments)
        except BaseException:  # noqa: BLE001 - the test is told
            answer = False, traceback.format_exc()
        connection.send(answer)
