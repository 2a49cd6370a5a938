"""A fork of a process that has imported torch does what a fresh Python does, in a hundredth of the time."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.processes import processor_seconds, run_forked, run_python

WITHOUT_DEVICE = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}


def test_it_knows_nothing_of_ours_before_the_entry_points_are_called() -> None:
    code = "import sys; print([name for name in sys.modules if name.startswith(('inductor_npu', 'triton', 'tests'))])"
    assert run_forked(code, **WITHOUT_DEVICE).lines() == ["[]"]
    assert run_forked("import torch; print(hasattr(torch, 'npu'))").lines() == ["True"]


def test_its_variables_and_path_are_those_of_a_fresh_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_STRICT", "1")  # not inherited
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", "here")
    (tmp_path / "only_here.py").write_text("name = 'found'")
    code = """
        import os, only_here
        ours = sorted(name for name in os.environ if name.startswith("INDUCTOR_NPU_"))
        print(only_here.name, __name__, os.getcwd(), ours, os.environ["ADDED"])
    """
    forked, fresh = (run(code, tmp_path, ADDED="x", **WITHOUT_DEVICE) for run in (run_forked, run_python))
    assert forked.lines() == fresh.lines()
    assert "'INDUCTOR_NPU_CACHE_DIR'" in forked.stdout and "STRICT" not in forked.stdout


@pytest.mark.parametrize("end", ["", "raise KeyError('mine')", "sys.exit(3)", "os._exit(4)", "os.abort()"])
def test_it_ends_as_a_fresh_process_does(end: str) -> None:
    code = f"import atexit, os, sys\natexit.register(print, 'at exit')\nprint('said', file=sys.stderr)\n{end}"
    forked = run_forked(code, **WITHOUT_DEVICE)
    fresh = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (forked.returncode, forked.stdout) == (fresh.returncode, fresh.stdout)
    assert forked.stderr.splitlines()[0] == "said" and ("KeyError: 'mine'" in forked.stderr) == ("KeyError" in end)


def test_one_leaves_nothing_to_the_next() -> None:
    code = """
        import os, torch
        print(hasattr(torch, "left"), "LEFT" in os.environ)
        torch.left = os.environ["LEFT"] = ""
    """
    for _ in range(2):
        assert run_forked(code, **WITHOUT_DEVICE).lines() == ["False False"]


def test_one_that_does_not_end_is_killed() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_forked("import time; time.sleep(1000)", timeout=0.5, **WITHOUT_DEVICE)
    assert run_forked("print('the next')", **WITHOUT_DEVICE).lines() == ["the next"]


def test_what_torch_reads_while_it_is_imported_is_refused() -> None:
    with pytest.raises(ValueError, match=r"OMP_NUM_THREADS: read before torch is imported; use run_python"):
        run_forked("", OMP_NUM_THREADS="1")


def test_its_processor_time_is_counted() -> None:
    before, began = processor_seconds(), time.process_time()
    run_forked("import time\nwhile time.process_time() < 1: pass", **WITHOUT_DEVICE)
    assert processor_seconds() - before >= 0.5 + time.process_time() - began
