"""The commands `inductor-npu package` and `inductor-npu run`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

import inductor_npu
from inductor_npu.cli import app

pytestmark = pytest.mark.compiled

SOURCE = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, tokens):
        return x * 2, torch.nn.functional.one_hot(tokens, 5).sum(-1)

model = Model
example_inputs = {"x": torch.randn(4, 16), "tokens": torch.zeros(4, dtype=torch.int64)}
number = 3
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "my_model.py"
    path.write_text(SOURCE)
    return path


def call(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": "200"})


def test_package_and_run(source: Path, tmp_path: Path):
    path = tmp_path / "model.pt2"
    made = call("package", f"{source}::model", "-o", path, "--dynamic-batch")
    assert made.exit_code == 0, made.output
    assert re.fullmatch(rf"{path}: [\d.]+ KiB", made.output.splitlines()[-1])
    ran = call("run", path, "--repeats", 2)
    lines = ran.output.splitlines()
    assert ran.exit_code == 0, ran.output
    assert lines[0].startswith(f"{path}: for Ascend910B3, made with torch 2.")
    assert lines[1:5] == [
        "input x: float32 (4, 16)",
        "input tokens: int64 (4,)",
        "result float32 (4, 16)",
        "result int64 (4,)",
    ]
    assert re.fullmatch(r"loading [\d.]+ ms, first run [\d.]+ ms, median run [\d.]+ ms", lines[5])
    (symbol,) = inductor_npu.load_package(path).manifest["signature"]["symbols"]
    larger = call("run", path, "--size", f"{symbol['name']}=7")
    assert "input tokens: int64 (7,)" in larger.output, larger.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("package", "{source}::missing", "-o", "m.pt2"), "my_model.py has no missing"),
        (
            ("package", "{source}::number", "-o", "m.pt2"),
            "number of {source} is no torch.nn.Module and makes none: it is of type int",
        ),
        (("package", "none.py::model", "-o", "m.pt2"), "none.py"),
        (("run", "{source}"), "package {source} cannot be loaded: it is not a package, or truncated"),
    ],
)
def test_what_cannot_be_done_is_one_line(source: Path, arguments: tuple[str, ...], message: str):
    result = call(*(argument.format(source=source) for argument in arguments))
    assert result.exit_code == 2
    assert message.format(source=source) in result.output and result.output.count("\n") == 1, result.output


def test_a_size_that_the_package_does_not_take(classifier):
    (symbol,) = inductor_npu.load_package(classifier[1]).manifest["signature"]["symbols"]
    result = call("run", classifier[1], "--size", f"{symbol['name']}=65")
    assert result.exit_code == 2 and "the model was exported for 1 to 64" in result.output
    result = call("run", classifier[1], "--size", "height=65")
    assert result.exit_code == 2 and "no size of this package is called height" in result.output
