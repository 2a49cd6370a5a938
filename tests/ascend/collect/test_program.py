"""Running a person's program in a process of its own: each way to name one, and each way to fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from inductor_npu.ascend.collect.program import ProgramRun, run_program
from inductor_npu.errors import NoProgramError

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
import torch
import helper_module

print("arguments", sys.argv[1:], __name__)
x = torch.randn(1000, device="npu")
print(torch.compile(helper_module.model)(x).shape)
if "fail" in sys.argv:
    raise ValueError("no luck")
sys.exit(7 if "exit" in sys.argv else 0)
"""
HELPER = """
import torch


class Head(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 4)

    def forward(self, x):
        return torch.nn.functional.gelu(self.linear(x))


head = Head()


def model(x, scale=2):
    return torch.sin(x) * scale


def needs_inputs(x, y):
    return x + y


def model_example_inputs():
    return {"x": torch.randn(100), "scale": 3}


def head_example_inputs():
    return torch.randn(5, 8)


def entry_point():
    print("entry point", torch.compile(model)(torch.randn(10, device="npu")).shape)
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current directory, with script.py, helper_module.py and a folder `out` for what is collected."""
    (tmp_path / "script.py").write_text(SCRIPT)
    (tmp_path / "helper_module.py").write_text(HELPER)
    (tmp_path / "out").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(here: Path, program: str, *arguments: str, **options) -> ProgramRun:
    return run_program(program, arguments, "Ascend910B3", here / "out", **options)


def operators(done: ProgramRun) -> list[tuple[str, ...]]:
    return [kernel.origin.operators for kernel in done.collection.kernels]


def test_a_script_with_arguments(here: Path, capfd: pytest.CaptureFixture[str]):
    done = run(here, "script.py", "a", "--target")
    assert done.status == 0 and operators(done) == [("aten.sin", "aten.mul")]
    assert done.collection.kernels[0].origin.lines == ("helper_module.py:18: return torch.sin(x) * scale",)
    assert "arguments ['a', '--target'] __main__" in capfd.readouterr().out
    assert sorted(path.name for path in (here / "out").iterdir()) == ["kernels.json", "program.json"]


def test_a_module_that_exits_with_a_status(here: Path):
    done = run(here, "script", "exit", is_module=True)
    assert done.status == 7 and len(done.collection.kernels) == 1


def test_a_program_that_fails_shows_its_own_traceback_and_keeps_its_kernels(
    here: Path, capfd: pytest.CaptureFixture[str]
):
    done = run(here, "script.py", "fail")
    assert done.status == 1 and len(done.collection.kernels) == 1
    shown = capfd.readouterr().err
    assert "ValueError: no luck" in shown and "script.py" in shown
    assert "runpy" not in shown and "child.py" not in shown


def test_a_function_with_example_inputs_and_a_device_of_its_own(here: Path):
    done = run(here, "helper_module.py::model")
    assert done.status == 0 and operators(done) == [("aten.sin", "aten.mul")]


def test_a_module_object_runs_forward_and_backward_unless_told_otherwise(here: Path):
    both = run(here, "helper_module:head")
    assert any("aten.gelu_backward" in names for names in operators(both)) and len(operators(both)) > 1
    forward = run(here, "helper_module:head", backward=False)
    assert [names[-2:] for names in operators(forward)] == [("aten.addmm", "aten.gelu")]


def test_a_function_without_arguments_is_an_entry_point(here: Path, capfd: pytest.CaptureFixture[str]):
    done = run(here, "helper_module.py::entry_point")
    assert done.status == 0 and len(done.collection.kernels) == 1
    assert "entry point torch.Size([10])" in capfd.readouterr().out


def test_a_function_without_inputs_says_what_to_add(here: Path, capfd: pytest.CaptureFixture[str]):
    done = run(here, "helper_module.py::needs_inputs")
    assert done.status == 1 and done.collection.kernels == []
    assert "add a function needs_inputs_example_inputs or example_inputs" in capfd.readouterr().err


def test_a_program_that_compiles_nothing_says_what_would(here: Path):
    (here / "script.py").write_text("import torch\ntorch.randn(3).sum()\n")
    done = run(here, "script.py")
    assert done.status == 0 and done.collection.kernels == []
    assert "Move model and inputs there" in done.collection.advice()


def test_a_file_that_is_not_there_is_named(here: Path):
    with pytest.raises(NoProgramError, match=r"no file nothing\.py"):
        run(here, "nothing.py::f")
