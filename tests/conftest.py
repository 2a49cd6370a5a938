"""Set-up of every test: which device is under test, and the switches that make a silent fallback fail.

`INDUCTOR_NPU_TEST_DEVICE` chooses the device of tests that ask for the fixture `device`:
`npu` (default), or `interpret`: CPU tensors and Triton's own interpreter, which checks the tests, not the compiler.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

# Before torch and Triton are imported: both read these when they load.
INTERPRETED = os.environ.get("INDUCTOR_NPU_TEST_DEVICE", "npu") == "interpret"
if INTERPRETED:
    os.environ["TRITON_INTERPRET"] = "1"
    os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"
os.environ.setdefault("INDUCTOR_NPU_STRICT", "1")
os.environ.setdefault("INDUCTOR_NPU_FILL_MEMORY", "1")  # what reads memory that nobody has written gets NaN

import pytest  # noqa: E402
import torch  # noqa: E402

from inductor_npu import providers  # noqa: E402
from inductor_npu.ascend.environment import find_environment  # noqa: E402
from inductor_npu.device import build  # noqa: E402
from inductor_npu.errors import AscendPlatformError, NoAscendEnvironmentError  # noqa: E402


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "failing_kernel: an assert in a kernel fails on purpose")
    config.addinivalue_line("markers", "two_devices: on devices npu:0 and npu:1")
    config.addinivalue_line("markers", "embedded: holds for the embedded NPU, or an Ascend chip's limits, only")
    if providers.current_provider() is providers.CUDA:
        torch.backends.cudnn.allow_tf32 = False  # results are compared with those of float32
    config.addinivalue_line("markers", "compiled: needs the compiler; does not run on Triton's interpreter")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    _check_that_no_device_is_open()
    if INTERPRETED:
        _skip(items, "compiled", "Triton's interpreter does not do this as compiled code does")
    _skip_what_the_chip_has_not(items)
    if any(item.get_closest_marker("ascend") for item in items):
        try:
            find_environment()
        except (NoAscendEnvironmentError, AscendPlatformError) as error:
            _skip(items, "ascend", str(error))


# Tests of kernels of the cube cores: with them, or as what they are written.
_OF_THE_CUBE = ("compile/products/", "compile/attention/", "compile/convolutions/test_kernels.py")


def _skip_what_the_chip_has_not(items: list[pytest.Item]) -> None:
    """Of tests that ask for a device, those whose subject the device under test does not have. What they are is in
    docs/new-chip.md.
    """
    if providers.current_target().cube_cores == 0:
        of_cube = [item for item in items if any(name in item.path.as_posix() for name in _OF_THE_CUBE)]
        for item in of_cube:
            item.add_marker(pytest.mark.skip(reason=f"{providers.current_target().name} has no cube cores"))
    if providers.current_provider() is providers.CUDA:
        _skip(items, "failing_kernel", "an assert in a kernel of CUDA ends the process's use of the device")
        _skip(items, "embedded", "it is about the embedded NPU, or the limits of an Ascend chip")
        if torch.cuda.device_count() < 2:
            _skip(items, "two_devices", "there is one GPU")


def _check_that_no_device_is_open() -> None:
    """How many devices there are is decided before the first is opened, by the tests that run."""
    loaded = build.loaded()
    if loaded is not None and loaded.is_open():
        raise pytest.UsageError("a test file opens device npu when it is imported: make its tensors in a fixture")


def _skip(items: list[pytest.Item], marker: str, reason: str) -> None:
    for item in items:
        if item.get_closest_marker(marker):
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def device() -> str:
    """The device under test, as torch spells it."""
    return "cpu" if INTERPRETED else "npu"


@pytest.fixture
def for_h100(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Code is generated for an H100. What Inductor, and we, keep of the device is that of another chip."""
    from torch._inductor.runtime.hints import DeviceProperties

    from inductor_npu.device_interface.properties import device_properties

    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "H100")
    for kept in (device_properties, DeviceProperties.create):
        kept.cache_clear()
    yield
    for kept in (device_properties, DeviceProperties.create):
        kept.cache_clear()
