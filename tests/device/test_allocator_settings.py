"""PYTORCH_NPU_ALLOC_CONF: what it may say, and how the caching allocator behaves then."""

from __future__ import annotations

import textwrap
from collections.abc import Callable

import pytest

from inductor_npu.device import allocator_settings
from inductor_npu.errors import DeviceSettingError, NpuWarning
from tests.device.npu_process import run_on_npu

# Settings are a process's: each of these runs in one of its own.
PRELUDE = """
import torch
MIB = 2**20
def reserve(size):
    return torch.empty(size * MIB, dtype=torch.uint8, device="npu")
def reserved():
    return torch.npu.memory_reserved() // MIB
def stat(name):
    return torch.npu.memory_stats()[name]
"""


def lines(options: str, code: str, memory: str = "1GiB") -> list[str]:
    """What `code` prints with `options` and devices of this size."""
    finished = run_on_npu(
        PRELUDE + textwrap.dedent(code), PYTORCH_NPU_ALLOC_CONF=options, INDUCTOR_NPU_SIM_MEMORY=memory
    )
    return finished.lines()


class TestMaxSplitSize:
    def test_a_larger_block_is_not_cut_for_a_smaller_request(self):
        code = """
            x = reserve(60)
            del x
            x = reserve(16)
            print(stat("max_split_size") // MIB, reserved())
            """
        assert lines("max_split_size_mb:32", code) == ["32 76"]

    def test_a_request_of_about_its_size_gets_it_whole(self):
        code = """
            x = reserve(60)
            address = x.data_ptr()
            del x
            x = reserve(50)
            print(x.data_ptr() == address)
            print(stat("allocated_bytes.all.current") // MIB, stat("requested_bytes.all.current") // MIB)
            """
        assert lines("max_split_size_mb:32", code) == ["True", "60 50"]

    def test_one_much_larger_than_asked_for_stays_unused(self):
        code = """
            x = reserve(60)
            del x
            x = reserve(36)
            print(reserved())
            """
        assert lines("max_split_size_mb:32,max_non_split_rounding_mb:22", code) == ["96"]

    def test_those_too_large_are_counted(self):
        code = """
            def count():
                return stat("oversize_allocations.current"), stat("oversize_segments.current")
            x, y = reserve(60), reserve(16)
            print(count())
            del x, y
            print(count())
            torch.npu.empty_cache()
            print(count())
            """
        assert lines("max_split_size_mb:32", code) == ["(1, 1)", "(0, 1)", "(0, 0)"]

    def test_the_largest_are_given_back_before_all_that_is_cached(self):
        code = """
            x, y, small = reserve(40), reserve(44), reserve(20)
            del x, y, small
            x = reserve(80)
            print(reserved(), stat("num_alloc_retries"), stat("num_ooms"))
            """
        assert lines("max_split_size_mb:32", code, memory="150MiB") == ["100 1 0"]

    def test_one_that_is_large_enough_is_given_back_alone(self):
        code = """
            x, small = reserve(60), reserve(20)
            del x, small
            x = reserve(36)
            print(reserved(), stat("num_alloc_retries"), stat("num_ooms"))
            """
        assert lines("max_split_size_mb:32,max_non_split_rounding_mb:22", code, memory="90MiB") == ["56 1 0"]


class TestGarbageCollection:
    CODE = """
        old, new = reserve(40), reserve(62)
        del old
        searched = reserve(120)
        del searched, new
        torch.npu.reset_accumulated_memory_stats()
        x = reserve(130)
        print(reserved(), stat("num_alloc_retries"), stat("num_device_free"))
        """

    def test_what_was_free_for_longest_is_given_back_at_the_threshold(self):
        assert lines("garbage_collection_threshold:0.4", self.CODE, memory="500MiB") == ["312 0 1"]

    def test_nothing_is_given_back_below_it(self):
        assert lines("garbage_collection_threshold:0.5", self.CODE, memory="500MiB") == ["352 0 0"]


def test_sizes_can_be_rounded_up_between_powers_of_two():
    code = """
        x, y = reserve(33), reserve(64)
        print(stat("allocated_bytes.all.current") // MIB, stat("requested_bytes.all.current") // MIB)
        """
    assert lines("roundup_power2_divisions:4", code) == [f"{40 + 64} {33 + 64}"]


def test_segments_that_are_shared_can_be_larger():
    assert lines("large_segment_size_mb:64", "x = reserve(2)\nprint(reserved())") == ["64"]


def test_all_of_torch_s_accelerators_have_one_variable():
    finished = run_on_npu(
        PRELUDE + "torch.npu.init()\nprint(stat('max_split_size') // MIB)", PYTORCH_ALLOC_CONF="max_split_size_mb:48"
    )
    assert finished.lines() == ["48"]


def test_they_can_be_changed_while_the_program_runs():
    code = """
        torch._C._accelerator_setAllocatorSettings("max_split_size_mb:40")
        torch.npu.init()
        print(stat("max_split_size") // MIB)
        """
    assert lines("max_split_size_mb:32", code) == ["40"]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Reads options as from the environment."""

    def apply(text: str) -> None:
        monkeypatch.setenv("PYTORCH_NPU_ALLOC_CONF", text)
        allocator_settings.apply()

    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    return apply


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("page_size:1g", "'page_size' is no option of the embedded NPU's allocator, which has max_split_size_mb"),
        ("max_split_size_mb", "a whole number for max_split_size_mb, not ''"),
        ("max_split_size_mb:many", "a whole number for max_split_size_mb, not 'many'"),
        ("max_split_size_mb:3", "max_split_size_mb too small, must be >= 20"),
        ("garbage_collection_threshold:1.5", "a number between 0 and 1, such as 0.8 for garbage_collection_threshold"),
        ("expandable_segments:yes", "True or False for expandable_segments, not 'yes'"),
        ("roundup_power2_divisions:[1:2", r"\[256:1,512:2,>:4\]"),
    ],
)
def test_a_bad_value_names_the_variable_and_what_it_may_be(use, text, expected):
    with pytest.raises(DeviceSettingError, match=f"(?s)PYTORCH_NPU_ALLOC_CONF='.*{expected}"):
        use(text)


def test_only_one_variable_may_be_set(use, monkeypatch):
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:64")
    with pytest.raises(DeviceSettingError, match="left out where PYTORCH_ALLOC_CONF is set"):
        use("max_split_size_mb:64")


def test_segments_that_grow_are_refused_with_a_warning(use):
    with pytest.warns(NpuWarning, match="expandable_segments has no effect on device npu"):
        use("expandable_segments:True")


def test_lists_are_one_value():
    parsed = allocator_settings.parse("X", "roundup_power2_divisions: [256:1, >:4], max_split_size_mb:64")
    assert parsed == {"roundup_power2_divisions": "[256:1,>:4]", "max_split_size_mb": "64"}
