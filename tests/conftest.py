"""Set-up of every test: which device is under test, and the switches that make a silent fallback fail.

`INDUCTOR_NPU_TEST_DEVICE` chooses the device of tests that ask for the fixture `device`:
`npu` (default), or `interpret`: CPU tensors and Triton's own interpreter, which checks the tests, not the compiler.
"""

from __future__ import annotations

import os

# Before torch and Triton are imported: both read these when they load.
INTERPRETED = os.environ.get("INDUCTOR_NPU_TEST_DEVICE", "npu") == "interpret"
if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
os.environ.setdefault("INDUCTOR_NPU_STRICT", "1")

import pytest  # noqa: E402
import torch  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "compiled: needs the compiler; does not run on Triton's interpreter")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if not INTERPRETED:
        return
    for item in items:
        if item.get_closest_marker("compiled"):
            item.add_marker(pytest.mark.skip(reason="Triton's interpreter does not do this as compiled code does"))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def device() -> str:
    """The device under test, as torch spells it."""
    return "cpu" if INTERPRETED else "npu"
