"""What the environment may say about the embedded NPU, and what it may not."""

from __future__ import annotations

import pytest

from inductor_npu.errors import DeviceSettingError, UnknownTargetError
from inductor_npu.simulator.host.settings import device_settings, host_threads, parse_size
from inductor_npu.target import get_target


@pytest.fixture(autouse=True)
def _plain_environment(monkeypatch):
    for name in ("LOCAL_WORLD_SIZE", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name in ("TARGET", "SIM_DEVICES", "SIM_MEMORY", "SIM_THREADS"):
        monkeypatch.delenv(f"INDUCTOR_NPU_{name}", raising=False)


@pytest.mark.embedded
def test_defaults_are_one_ascend910b3_that_leaves_half_the_host_s_memory():
    settings = device_settings()
    target = get_target("Ascend910B3")
    assert settings["target"] == target.name and settings["devices"] == 1
    assert host_threads() == 0
    assert settings["vector_cores"] == target.vector_cores and settings["max_grid"] == target.max_grid
    assert 0 < settings["memory_bytes"] <= target.memory


@pytest.mark.parametrize(("ranks", "devices"), [("4", 4), ("64", 8), ("", 1)])
def test_ranks_of_torchrun_have_a_device_each(monkeypatch, ranks, devices):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert device_settings()["devices"] == devices
    monkeypatch.setenv("LOCAL_RANK", "5")
    assert device_settings()["devices"] == max(devices, 6)
    monkeypatch.setenv("INDUCTOR_NPU_SIM_DEVICES", "2")
    assert device_settings()["devices"] == 2


def test_devices_share_the_host_s_memory(monkeypatch):
    monkeypatch.setenv("INDUCTOR_NPU_SIM_DEVICES", "8")
    settings = device_settings()
    monkeypatch.setenv("INDUCTOR_NPU_SIM_DEVICES", "1")
    assert settings["devices"] == 8 and settings["memory_bytes"] <= device_settings()["memory_bytes"]


@pytest.mark.parametrize(
    ("text", "size"),
    [("1000", 1000), ("512MiB", 512 * 2**20), ("8G", 2**33), ("1.5 gb", 3 * 2**29), ("4k", 4096), ("2TiB", 2**41)],
)
def test_sizes(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1G", "1 GiB more", "0x10"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="not a size such as 512MiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("variable", "text", "expected"),
    [
        ("INDUCTOR_NPU_SIM_DEVICES", "0", "a whole number from 1 to 8"),
        ("INDUCTOR_NPU_SIM_DEVICES", "nine", "a whole number from 1 to 8"),
        ("INDUCTOR_NPU_SIM_THREADS", "-2", "a whole number from 0"),
        ("INDUCTOR_NPU_SIM_MEMORY", "lots", "a size in bytes, such as 512MiB or 8GiB"),
        ("INDUCTOR_NPU_SIM_MEMORY", "0", "a size in bytes"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_it_may_be(monkeypatch, variable, text, expected):
    monkeypatch.setenv(variable, text)
    with pytest.raises(DeviceSettingError, match=f"{variable}='{text}' is not valid: it must be {expected}"):
        host_threads() if variable.endswith("THREADS") else device_settings()


def test_an_unknown_target_names_the_known_ones(monkeypatch):
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "Ascend1")
    with pytest.raises(UnknownTargetError, match="Ascend910B3"):
        device_settings()
