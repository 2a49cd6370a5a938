"""The hash of Triton's library: taken by another thread from the first compile on, by nobody without one."""

from __future__ import annotations

import pytest
from torch._inductor import codecache

from tests.processes import run_python

pytestmark = [
    pytest.mark.compiled,
    pytest.mark.skipif(
        not hasattr(getattr(codecache, "triton_key", None), "prefetch"), reason="torch 2.13 is the first that can"
    ),
]

# Says whether the main thread takes the hash.
PROGRAM = """
import threading

import torch
from torch._inductor import codecache
from torch.utils._functools import prefetchable_cache

taken_by = []
take = codecache.triton_key

def take_and_note():
    taken_by.append(threading.current_thread())
    return take()

codecache.triton_key = prefetchable_cache(take_and_note)

x = torch.ones(8, device="{device}")
assert not taken_by
torch.compile(lambda x: x + 1)(x)
print([thread is threading.main_thread() for thread in taken_by])
"""


@pytest.mark.slow
@pytest.mark.parametrize(("device", "by_main_thread"), [("npu", False), ("cpu", True)])
def test_another_thread_takes_it_where_something_is_compiled_with_the_device_in_use(
    device: str, by_main_thread: bool
) -> None:
    finished = run_python(PROGRAM.replace("{device}", device), TORCHINDUCTOR_FORCE_DISABLE_CACHES="0")
    assert finished.lines() == [f"[{by_main_thread}]"]
