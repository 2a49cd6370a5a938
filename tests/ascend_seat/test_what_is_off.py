"""A machine that is not set up: torch stays usable, one line says what is off, and `inductor-npu doctor` all of it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.ascend_seat.processes import ours, run
from tests.ascend_seat.seat import CANN

EAGER = "import torch\nprint((torch.ones(3) + 1).tolist())\n"


def without_cann() -> dict[str, str]:
    """Variables as before somebody sourced CANN's set_env.sh."""
    names = ("PATH", "LD_LIBRARY_PATH")
    kept = {name: [part for part in os.environ[name].split(":") if not part.startswith(str(CANN))] for name in names}
    return {**{name: ":".join(parts) for name, parts in kept.items()}, "ASCEND_HOME_PATH": ""}


def doctor(**environment: str) -> tuple[int, str]:
    """Exit status and output of the command."""
    command = [str(Path(sys.executable).parent / "inductor-npu"), "doctor"]
    variables = {**os.environ, "INDUCTOR_NPU_PROVIDER": "", "COLUMNS": "300", **environment}
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)
    assert "Traceback" not in done.stdout + done.stderr
    return done.returncode, done.stdout


def test_torch_works_where_torch_npu_does_not_load() -> None:
    finished = run(EAGER, **without_cann())
    assert finished.lines() == ["[2.0, 2.0, 2.0]"]
    assert ours(finished.stderr).count("NpuWarning") == 1
    for part in ("libhccl.so", "set_env.sh", "INDUCTOR_NPU_PROVIDER=simulator", "inductor-npu doctor"):
        assert part in finished.stderr


def test_who_imports_torch_npu_gets_its_error() -> None:
    code = "try:\n    import torch_npu\nexcept ImportError as error:\n    print(error)\n"
    for imports in ("", "import torch\n"):
        (message,) = run(imports + code, **without_cann()).lines()
        assert "libhccl.so" in message


def test_torch_npu_fails_as_ever_where_nobody_is_to_provide() -> None:
    finished = run(EAGER, INDUCTOR_NPU_PROVIDER="none", **without_cann())
    assert finished.returncode == 1
    assert "Failed to load the backend extension: torch_npu" in finished.stderr


def test_a_cache_that_cannot_be_written_leaves_ascends_launcher(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    finished = run("import torch\ncheck()\n", INDUCTOR_NPU_CACHE_DIR=str(tmp_path / "file" / "cache"))
    assert finished.lines()[-1] == "True inductor_npu"
    assert "cannot be built in" in finished.stderr


def test_without_a_device_the_embedded_npu_can_be_had() -> None:
    assert run(EAGER + "print(torch.npu.device_count())\n", STANDIN_DEVICES="0").lines()[1] == "0"
    finished = run(EAGER + "check()\n", STANDIN_DEVICES="0", INDUCTOR_NPU_PROVIDER="simulator")
    assert finished.lines() == ["[2.0, 2.0, 2.0]", "True inductor_npu"]


def test_doctor_finds_nothing_wrong_at_the_seat() -> None:
    status, said = doctor()
    assert status == 0, said
    for part in ("ascend: an Ascend chip", "2, Ascend910B3", "triton-ascend 3.2.0", "NpuScheduling", "right"):
        assert part in said


@pytest.mark.parametrize(
    ("variables", "advice"),
    [
        (without_cann, "source the set_env.sh of CANN's toolkit"),
        (lambda: {"STANDIN_DEVICES": "0"}, "INDUCTOR_NPU_PROVIDER=simulator takes the embedded NPU"),
        (lambda: {"INDUCTOR_NPU_PROVIDER": "none"}, "unset INDUCTOR_NPU_PROVIDER"),
        (lambda: {"STANDIN_SOC": "Ascend310P3"}, "INDUCTOR_NPU_TARGET"),
    ],
    ids=["no CANN", "no device", "no provider", "unknown chip"],
)
def test_doctor_says_what_is_off(variables, advice: str) -> None:
    status, said = doctor(**variables())
    assert status == 1, said
    assert advice in said, said
