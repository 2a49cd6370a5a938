"""PyTorch's own tests are listed and run with `npu` as the GPU, also those of another version of torch."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from opinfo.outcomes import Verdict
from world.inductor_tests import suite
from world.inductor_tests.reasons import reason_of
from world.outcomes import Outcome

FILE = """
import unittest

import torch
from torch._inductor.compile_fx import a_name_of_another_version
from torch._a_module_of_another_version import another_name
from torch.testing._internal.inductor_utils import GPU_TYPE, HAS_CPU, HAS_GPU


class GPUTests(unittest.TestCase):
    def test_right(self):
        x = torch.arange(8.0)
        torch.testing.assert_close(torch.compile(lambda x: x * 2)(x.to(GPU_TYPE)).cpu(), x * 2)

    def test_wrong(self):
        torch.testing.assert_close(torch.ones(2), torch.zeros(2))

    def test_counts(self):
        self.assertEqual(2, 3)

    def test_gone(self):
        a_name_of_another_version()

    @another_name
    def test_gone_too(self):
        raise AssertionError

    @unittest.expectedFailure
    def test_expected(self):
        raise AssertionError

    @unittest.skipIf(not HAS_GPU, "no GPU")
    def test_has_gpu(self):
        pass


if HAS_CPU:

    class CpuTests(GPUTests):
        pass
"""
PROGRAM = """
from world.inductor_tests import suite
from world.outcomes import Outcome

suite.FILES = ("test_torchinductor",)
for member in suite.members():
    outcome = suite.run_case(Outcome(f"inductor/{member}"))
    print("|".join((member.rpartition(".")[2], outcome.verdict.value, outcome.reason)))
"""


@pytest.mark.slow
def test_tests_run_with_npu_as_the_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "test" / "inductor"
    folder.mkdir(parents=True)
    (folder / "test_torchinductor.py").write_text(FILE)
    monkeypatch.setenv(suite.FOLDER_VARIABLE, str(tmp_path))
    ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    told = {name: (verdict, reason) for name, verdict, reason in (line.split("|") for line in ran.stdout.splitlines())}
    assert {name: verdict for name, (verdict, _) in told.items()} == {
        "test_right": Verdict.PASSED.value,
        "test_wrong": Verdict.WRONG.value,
        "test_counts": Verdict.ERROR.value,
        "test_gone": Verdict.SKIPPED.value,
        "test_gone_too": Verdict.SKIPPED.value,
        "test_expected": Verdict.PASSED.value,
        "test_has_gpu": Verdict.PASSED.value,
    }
    assert told["test_counts"][1] == "AssertionError: 2 != 3"
    assert told["test_gone"][1] == "this torch has no a_name_of_another_version"


def test_where_there_are_none_the_error_says_how_to_get_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(suite.FOLDER_VARIABLE, str(tmp_path))
    with pytest.raises(FileNotFoundError, match="apt-get source pytorch"):
        suite._root()
    assert Outcome("inductor/test_foreach.A.test_b").library == "inductor"


@pytest.mark.parametrize(
    ("test", "verdict", "says", "known"),
    [
        ("GPUTests.test_max_pool2d6_npu", Verdict.ERROR, "AssertionError: Scalars are not equal! Expected 0", True),
        ("GPUTests.test_max_pool2d6_npu", Verdict.WRONG, "AssertionError: Tensor-likes are not close!", False),
        ("GPUTests.test_philox_rand_npu", Verdict.ERROR, "RuntimeError: CUDA not available", True),
        ("GPUTests.test_add_npu", Verdict.WRONG, "AssertionError: Tensor-likes are not close!", False),
        ("GPUTests.test_add_npu", Verdict.CRASH, "SIGSEGV", False),
    ],
)
def test_no_reason_is_known_for_wrong_values(test: str, verdict: Verdict, says: str, known: bool) -> None:
    assert bool(reason_of(Outcome(f"inductor/test_torchinductor.{test}", verdict, says))) == known
    assert not reason_of(Outcome(f"transformers/{test}", verdict, says))
