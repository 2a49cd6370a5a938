"""These tests run at the seat only (`make test-ascend-seat`): there torch_npu owns the device `npu`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.ascend_seat.seat import CANN, REPORT

IS_AT_THE_SEAT = os.environ.get("ASCEND_HOME_PATH") == str(CANN)
if not IS_AT_THE_SEAT:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _nothing_of_cann_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Fails a test in which a function of CANN was called that the stand-in does not have, here or in a child."""
    report = tmp_path / "missing"
    monkeypatch.setenv(REPORT, str(report))
    yield
    assert not report.exists(), f"the stand-in has no {', '.join(sorted(set(report.read_text().split())))}"


# Tests of other folders that are wrong at the seat, and why.
_ELSEWHERE = {
    "test_conversions": "Ascend's compiler has no float64",
    "test_an_error_of_the_compiler_below_dynamo": "the minifier writes torch_npu's metadata of tensors: no Python",
    "test_loop_over_two_reduced_axes_alone": "torch_npu's backward pass of kl_div cannot be traced",
    "test_one_compile_serves_every_sequence_length": "torch_npu's attention takes the lengths for constants",
    "test_cumulative_of_integers": "Ascend's compiler crashes on cummin of int8",
}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """At the seat each test, of whatever folder, starts processes with torch_npu or waits for Ascend's compiler."""
    for item in items if IS_AT_THE_SEAT else ():
        item.add_marker(pytest.mark.slow)
        reason = _ELSEWHERE.get(getattr(item, "originalname", None) or item.name)
        if reason is not None:
            item.add_marker(pytest.mark.skip(reason=reason))
