"""The compile cache between processes: another directory, another home, several at once."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cache.together import bring_device, environment, kernels_kept, run_in_turn, run_together, start, told, total
from tests.processes import run_python

pytestmark = pytest.mark.compiled

PROGRAM = """
x = torch.linspace(-2, 2, 24 * 50).reshape(24, 50)
function = lambda x: (torch.softmax(x, -1) + x.sin().sum(0)).cos()
begin_together()
torch.testing.assert_close(torch.compile(function)(x.to("npu")).cpu(), function(x))
tell()
"""


@pytest.mark.slow
def test_another_process_directory_and_home_find_every_kernel(tmp_path: Path) -> None:
    folder, elsewhere = tmp_path / "caches", tmp_path / "elsewhere"
    elsewhere.mkdir()
    cold = told(start(PROGRAM, folder, tmp_path))
    assert cold.keys() == {"miss"}
    warm = start(PROGRAM, folder, elsewhere, HOME=str(elsewhere), PYTHONHASHSEED="7", INDUCTOR_NPU_CACHE="must-hit")
    assert told(warm) == {"hit": cold["miss"]}


@pytest.mark.slow
def test_a_container_with_an_exported_cache_compiles_nothing(tmp_path: Path) -> None:
    here, there, bundle = tmp_path / "here", tmp_path / "there", tmp_path / "bundle.zip"
    cold = told(start(PROGRAM, here, tmp_path))
    for folder, what in ((here, "export"), (there, "import")):
        command = [sys.executable, "-c", "from inductor_npu.cli import main; main()", "cache", what, str(bundle)]
        subprocess.run(command, env=environment(folder), check=True, capture_output=True, timeout=100)
    shutil.rmtree(here)
    assert told(start(PROGRAM, there, tmp_path, INDUCTOR_NPU_CACHE="must-hit")) == {"hit": cold["miss"]}


@pytest.mark.slow
def test_of_processes_that_start_at_once_one_compiles_each_kernel(tmp_path: Path) -> None:
    processes = 6
    found = run_together(PROGRAM, processes, tmp_path / "caches")
    kernels = kernels_kept(tmp_path / "caches")
    assert kernels > 0
    assert total(found, "miss") == kernels
    assert total(found, "hit") == kernels * (processes - 1)


@pytest.mark.slow
def test_without_any_variable_kernels_are_in_the_users_cache(tmp_path: Path) -> None:
    """Inductor sets TORCHINDUCTOR_CACHE_DIR itself once it has looked for a graph: that is nobody's choice."""
    home = tmp_path / "home" / "inductor_npu"
    home.mkdir(parents=True)
    bring_device(home)
    code = """
        import os
        for name in ("TORCHINDUCTOR_CACHE_DIR", "INDUCTOR_NPU_CACHE_DIR", "TORCHINDUCTOR_FORCE_DISABLE_CACHES"):
            os.environ.pop(name, None)
        import torch
        print(torch.compile(lambda x: x.sin() + 1)(torch.zeros(3, device="npu")).sum().item())
    """
    told = run_python(code, XDG_CACHE_HOME=str(tmp_path / "home"), TMPDIR=str(tmp_path), OMP_NUM_THREADS="1")
    assert told.lines() == ["3.0"]
    kept = [path for path in tmp_path.rglob("kernel/*/*") if "entries" in path.parts]
    assert [path.parents[3] for path in kept] == [home]


@pytest.mark.slow
def test_ranks_with_a_device_each_share_their_kernels(tmp_path: Path) -> None:
    program = """
        function = lambda x: torch.softmax(x, -1) + x.sin().sum(0)
        x = torch.linspace(-2, 2, 24 * 50).reshape(24, 50)
        y = torch.compile(function)(x.to("npu:" + os.environ["RANK"]))
        assert y.device.index == int(os.environ["RANK"])
        torch.testing.assert_close(y.cpu(), function(x))
        tell()
    """
    ranks = run_in_turn(program, (1, 0, 2), tmp_path / "caches", INDUCTOR_NPU_SIM_DEVICES="3")
    assert ranks[0].keys() == {"miss"}
    assert ranks[1:] == [{"hit": ranks[0]["miss"]}] * 2
