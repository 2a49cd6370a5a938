"""What goes wrong in a job ends in an error that says what, in time, and leaves no process behind."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import torch
import torch.distributed as dist

from tests.distributed.ranks import Ranks
from tests.processes import run_job

TIME_OUT = 6  # seconds, of groups whose ranks get lost
MESSAGE = re.compile(r"all_reduce.*rank 0 of 2, call \d+ of process group \S+, time-out 6 s: ", re.DOTALL)


@pytest.fixture
def brief_ranks() -> Iterator[Ranks]:
    """New ranks, of which some may be killed."""
    ranks = Ranks(2, TIME_OUT)
    yield ranks
    ranks.stop()


def one_rank_ends(after: float, elements: int) -> str:
    """Rank 1 is killed in the middle of collectives; what the other rank is told."""
    if dist.get_rank() == 1:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)  # kills
        signal.setitimer(signal.ITIMER_REAL, after)
    tensor = torch.ones(elements, device="npu")
    try:
        while True:
            for _ in range(20):
                dist.all_reduce(tensor, dist.ReduceOp.MAX)
            torch.npu.synchronize()
    except RuntimeError as error:
        return str(error)


def check_a_kill(ranks: Ranks, after: float, elements: int) -> None:
    began = time.monotonic()
    survivor, killed = ranks.attempt(one_rank_ends, after, elements, seconds=60)
    assert killed == (False, f"ended with status {-signal.SIGALRM}")
    assert survivor[0], survivor
    assert MESSAGE.search(survivor[1]), survivor[1]
    assert time.monotonic() - began < after + TIME_OUT + 20
    processes = ranks.process_ids()
    ranks.stop()
    assert not any(Path(f"/proc/{process}").exists() for process in processes)


@pytest.mark.parametrize("number", range(5))
def test_a_killed_rank(brief_ranks: Ranks, number: int) -> None:
    check_a_kill(brief_ranks, after=0.05 + 0.03 * number, elements=[1, 1000, 300_000, 3_000_000, 17][number])


@pytest.mark.slow
def test_a_hundred_killed_ranks() -> None:
    source = random.Random(0)
    for _ in range(100):
        ranks = Ranks(2, TIME_OUT)
        try:
            check_a_kill(ranks, source.uniform(0.001, 0.3), source.choice([1, 1000, 100_000, 2_000_000]))
        finally:
            ranks.stop()


def the_group_is_lost() -> list[str]:
    """After a failure: a later collective, and what the caller's stream says."""
    if dist.get_rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    texts = []
    tensor = torch.ones(4, device="npu")
    for attempt in (
        lambda: dist.all_reduce(tensor),
        lambda: torch.npu.synchronize(),
        lambda: dist.broadcast(tensor, 0),
        lambda: dist.barrier(),
    ):
        try:
            attempt()
        except RuntimeError as error:
            texts.append(str(error))
    assert (torch.ones(3, device="npu") + 1).tolist() == [2.0] * 3  # the device itself is well
    return texts


def test_a_group_that_has_failed_says_why(brief_ranks: Ranks) -> None:
    (succeeded, texts), _ = brief_ranks.attempt(the_group_is_lost)
    assert succeeded, texts
    assert MESSAGE.search(texts[0])
    assert any("process group 0 takes no more collectives on rank 0 of 2: all_reduce failed" in text for text in texts)


def one_rank_is_late() -> str:
    group = dist.new_group(backend="hccl", timeout=timedelta(seconds=1))
    tensor = torch.ones(4, device="npu")
    if dist.get_rank() == 1:
        time.sleep(3)
        return ""
    try:
        dist.all_reduce(tensor, group=group)
        torch.npu.synchronize()
    except RuntimeError as error:
        return str(error)
    return "no error"


def test_a_rank_that_is_too_late(brief_ranks: Ranks) -> None:
    text, _ = brief_ranks.run(one_rank_is_late)
    assert re.search(r"all_reduce.*rank 0 of 2, call 1 of process group \S+, time-out 1 s: .*[Tt]imed out", text), text


def wrong_results_do_not_leave_the_device() -> str:
    """Also where the program waits by events only, on another stream than the one that it reads on."""
    group = dist.new_group(backend="hccl", timeout=timedelta(seconds=1))
    side = torch.npu.Stream()
    tensor = torch.ones(4, device="npu")
    if dist.get_rank() == 1:
        time.sleep(3)
        return ""
    with torch.npu.stream(side):
        dist.all_reduce(tensor, group=group)
        done = side.record_event()
    torch.npu.current_stream().wait_event(done)
    try:
        return f"no error, but {tensor.tolist()}"
    except RuntimeError as error:
        return str(error)


def test_a_failure_follows_the_events(brief_ranks: Ranks) -> None:
    text, _ = brief_ranks.run(wrong_results_do_not_leave_the_device)
    assert "all_reduce failed on npu:0" in text


def ranks_that_disagree(kind: str) -> str:
    dist.set_debug_level(dist.DebugLevel.DETAIL)
    group = dist.new_group(backend="hccl", timeout=timedelta(seconds=TIME_OUT))
    dist.set_debug_level(dist.DebugLevel.OFF)
    rank = dist.get_rank()
    size, dtype = 4, torch.float32
    if rank == 1 and kind == "shapes":
        size = 5
    if rank == 1 and kind == "dtypes":
        dtype = torch.int32
    tensor = torch.ones(size, dtype=dtype, device="npu")
    try:
        if rank == 1 and kind == "collectives":
            dist.broadcast(tensor, 0, group=group)
        else:
            dist.all_reduce(tensor, group=group)
        torch.npu.synchronize()
    except RuntimeError as error:
        return str(error)
    return "no error"


@pytest.mark.parametrize("kind", ["shapes", "dtypes", "collectives"])
def test_ranks_that_disagree(two_ranks: Ranks, kind: str) -> None:
    for text in two_ranks.run(ranks_that_disagree, kind):
        assert "Detected mismatch between collectives on ranks" in text, text


def run_script(script: Path, rank: int, size: int, port: int, **more: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "RANK": str(rank),
        "WORLD_SIZE": str(size),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        **more,
    }
    return subprocess.Popen(
        [sys.executable, str(script)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@pytest.mark.slow
def test_a_process_ends_when_its_peer_has(tmp_path: Path) -> None:
    """Python's end does not wait for a collective that cannot come to its end."""
    script = tmp_path / "script.py"
    script.write_text(
        textwrap.dedent("""
        import os, signal, torch, torch.distributed as dist

        dist.init_process_group()
        tensor = torch.ones(4, device="npu")
        dist.all_reduce(tensor)
        torch.npu.synchronize()
        if dist.get_rank() == 1:
            os.kill(os.getpid(), signal.SIGSTOP)
        dist.all_reduce(tensor, async_op=True)
        raise SystemExit("the program fails for a reason of its own")
        """)
    )
    port = free_port()
    ranks = [run_script(script, rank, 2, port) for rank in range(2)]
    try:
        began = time.monotonic()
        output, _ = ranks[0].communicate(timeout=60)
        assert "collectives on npu still wait for other ranks" in output
        assert "for a reason of its own" in output
        assert ranks[0].returncode == 1
        assert time.monotonic() - began < 50
    finally:
        for process in ranks:
            process.kill()
            process.wait()


@pytest.mark.slow
def test_a_port_in_use(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text("import torch.distributed as dist\ndist.init_process_group()\n")
    with socket.socket() as listener:
        listener.bind(("0.0.0.0", 0))
        listener.listen()
        port = listener.getsockname()[1]
        process = run_script(script, 0, 1, port)
        output, _ = process.communicate(timeout=60)
    assert process.returncode != 0
    assert str(port) in output and "EADDRINUSE" in output


TRAINING = """
import os, sys, torch, torch.distributed as dist, torch.distributed.checkpoint as dcp, torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel

folder, crash = sys.argv[1], sys.argv[2] == "crash"
dist.init_process_group()
rank, size = dist.get_rank(), dist.get_world_size()
torch.manual_seed(0)
model = DistributedDataParallel(torch.nn.Linear(8, 1).npu())
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.randn(10, 4 * size, 8)
first = 0
if os.path.exists(f"{folder}/.metadata"):
    state = {"model": model.state_dict(), "step": torch.tensor(0)}
    dcp.load(state, checkpoint_id=folder)
    model.load_state_dict(state["model"])
    first = int(state["step"])
for step in range(first, 10):
    if crash and step == 6 and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
        os._exit(3)
    x = data[step, rank::size].npu()
    loss = F.mse_loss(torch.compile(model)(x), x.sum(1, keepdim=True))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step == 4:
        dcp.save({"model": model.state_dict(), "step": torch.tensor(step + 1)}, checkpoint_id=folder)
total = loss.detach()
dist.all_reduce(total)
if rank == 0:
    print("restarts", os.environ["TORCHELASTIC_RESTART_COUNT"], "loss", f"{total.item():.9f}")
dist.destroy_process_group()
"""


def torchrun(script: Path, *arguments: str) -> str:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1", "--standalone"]
    finished = run_job([*command, str(script), *arguments], timeout=200)
    return next(line for line in finished.lines() if line.startswith("restarts"))


@pytest.mark.slow
def test_a_job_goes_on_from_its_checkpoint(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(TRAINING)
    straight = torchrun(script, str(tmp_path / "straight"), "no crash")
    restarted = torchrun(script, str(tmp_path / "restarted"), "crash")
    assert straight.startswith("restarts 0 loss ") and restarted.startswith("restarts 1 loss ")
    assert straight.split()[-1] == restarted.split()[-1]
