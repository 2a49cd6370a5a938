"""The compile cache between processes: another directory, another home, several at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.compiled]

ROOT = Path(__file__).parents[2]
PROGRAM = """
import json, torch
from torch._dynamo.utils import counters
x = torch.linspace(-2, 2, 24 * 50).reshape(24, 50).to("npu")
y = torch.compile(lambda x: (torch.softmax(x, -1) + x.sin().sum(0)).cos())(x)
torch.testing.assert_close(y.cpu(), (torch.softmax(x.cpu(), -1) + x.cpu().sin().sum(0)).cos())
print(json.dumps(counters["inductor_npu_kernel_cache"]))
"""


def start(folder: Path, directory: Path, **environment: str) -> subprocess.Popen[str]:
    """Starts the program in `directory`, with caches in `folder`."""
    unset = ("INDUCTOR_NPU_CACHE", "INDUCTOR_NPU_STRICT", "TORCHINDUCTOR_FORCE_DISABLE_CACHES", "TRITON_CACHE_DIR")
    inherited = {name: value for name, value in os.environ.items() if name not in unset}
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(folder), "PYTHONPATH": str(ROOT)}
    # The device's library is where it was built, our entries are in the folder.
    library = {"INDUCTOR_NPU_CACHE_DIR": str(folder / "ours")}
    shared = Path(os.environ.get("INDUCTOR_NPU_CACHE_DIR") or Path.home() / ".cache" / "inductor_npu") / "device"
    (folder / "ours").mkdir(parents=True, exist_ok=True)
    if shared.is_dir() and not (folder / "ours" / "device").exists():
        (folder / "ours" / "device").symlink_to(shared)
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=directory,
        env={**inherited, **caches, **library, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def counts(process: subprocess.Popen[str]) -> dict[str, int]:
    output, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors
    return json.loads(output.splitlines()[-1])


def test_another_process_directory_and_home_find_every_kernel(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "caches", tmp_path / "elsewhere"
    elsewhere.mkdir()
    cold = counts(start(folder, tmp_path))
    assert cold.keys() == {"miss"}
    warm = counts(start(folder, elsewhere, HOME=str(elsewhere), PYTHONHASHSEED="7", INDUCTOR_NPU_CACHE="must-hit"))
    assert warm == {"hit": cold["miss"]}


def test_of_processes_that_start_at_once_one_compiles(tmp_path: Path) -> None:
    folder = tmp_path / "caches"
    together = [start(folder, tmp_path) for _ in range(4)]
    found = [counts(process) for process in together]
    compiled = sum(each.get("miss", 0) for each in found)
    kernels = len(list((folder / "ours" / "entries" / "kernel").glob("*/*")))
    assert kernels > 0
    assert compiled == kernels
