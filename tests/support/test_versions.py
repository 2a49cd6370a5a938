"""The tested versions of torch and Triton, and what is said of others."""

from __future__ import annotations

import pytest

from inductor_npu.support import versions


@pytest.mark.parametrize("version", ["2.11.0", "2.12.1+cpu", "2.13.0", "2.14.1+cu130", "2.15.0"])
def test_tested_torch_versions_are_fine(version: str) -> None:
    assert versions.version_problems(version, "3.6.0") == []


@pytest.mark.parametrize("version", ["3.2.0", "3.6.0", "3.7.1", "3.8.0", "3.9.0"])
def test_tested_triton_versions_are_fine(version: str) -> None:
    assert versions.version_problems("2.15.0", version) == []


@pytest.mark.parametrize("version", ["2.10.0", "2.16.0", "3.0.0"])
def test_other_torch_versions_are_named_with_the_tested_range(version: str) -> None:
    (problem,) = versions.version_problems(version, "3.6.0")
    assert version in problem
    assert "2.11 to 2.15" in problem
    assert ("is tried" in problem) == (version != "2.10.0")


@pytest.mark.parametrize("version", ["3.1.0", "3.3.0", "3.10.0", "4.0.0"])
def test_other_triton_versions_are_named_with_the_tested_range(version: str) -> None:
    (problem,) = versions.version_problems("2.13.0", version)
    assert version in problem
    assert "tested range" in problem


def test_missing_triton_says_what_to_install() -> None:
    (problem,) = versions.version_problems("2.13.0", None)
    assert "install triton" in problem
