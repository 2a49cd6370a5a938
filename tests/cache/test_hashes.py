"""The hashes of torch's and Triton's files are taken by the first process only, Triton's by another thread."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
import torch
from torch._inductor import codecache

from inductor_npu.cache import library_hashes
from tests.processes import run_python

pytestmark = pytest.mark.compiled

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


@pytest.mark.skipif(
    not hasattr(getattr(codecache, "triton_key", None), "prefetch"), reason="torch 2.13 is the first that can"
)
@pytest.mark.slow
@pytest.mark.parametrize("device", ["npu", "cpu"])
def test_another_thread_takes_it_as_soon_as_inductor_is_imported(device: str) -> None:
    finished = run_python(PROGRAM.replace("{device}", device), TORCHINDUCTOR_FORCE_DISABLE_CACHES="0")
    assert finished.lines() == ["[False]"]


# Forks while the other thread takes the hash.
FORKED = """
import os
import time

import torch
import triton.runtime.cache

take = triton.runtime.cache.triton_key

def take_slowly():
    time.sleep(0.5)
    return take()

triton.runtime.cache.triton_key = take_slowly
import torch._inductor.compile_fx

child = os.fork()
x = torch.ones(8, device="npu")
print(torch.compile(lambda x: x + 1)(x).sum().item(), flush=True)
if child:
    assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.slow
def test_a_process_forked_meanwhile_has_it(tmp_path: Path) -> None:
    caches = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path), "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0"}
    assert run_python(FORKED, **caches).lines() == ["16.0", "16.0"]


# Says how often torch's files are read, and which key torch has for them in the end.
READS = """
import torch
from torch._inductor import codecache

reads = []
read = codecache.build_code_hash

def read_and_note(roots, prefix, hasher):
    if not prefix:
        reads.append(roots)
    return read(roots, prefix, hasher)

codecache.build_code_hash = read_and_note
{before}
x = torch.ones(8, device="{device}")
torch.compile(lambda x: x + 1)(x)
print(len(reads), codecache.torch_key().hex())
"""


@pytest.fixture
def caches(tmp_path: Path) -> dict[str, str]:
    """An empty folder for all caches, which are on."""
    if library_hashes.key_of(Path(torch.__file__).parent, "", time.time()) is None:
        pytest.skip("torch was installed a moment ago, or its file system does not say when files changed")
    return {
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path),
        "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "0",
        "TORCHINDUCTOR_CPP_CACHE_PRECOMPILE_HEADERS": "0",  # a minute of C++, for later compiles that there are none of
    }


def _reads(caches: dict[str, str], before: str = "", device: str = "npu", **environment: str) -> tuple[int, str]:
    program = READS.replace("{before}", before).replace("{device}", device)
    times, key = run_python(program, **caches, **environment).lines()[-1].split()
    return int(times), key


@pytest.mark.slow
def test_the_next_process_does_not_read_the_files_of_torch(caches: dict[str, str]) -> None:
    times, key = _reads(caches)
    assert times == 1
    assert _reads(caches) == (0, key)


@pytest.mark.slow
@pytest.mark.parametrize(
    "how",
    [
        {"INDUCTOR_NPU_CACHE": "off"},
        {"device": "cpu"},
        {"before": "del codecache.torch_key.set"},  # a torch that cannot be given the hash
        {"before": "codecache.torch_key()"},  # one that has it already
    ],
)
def test_a_process_reads_them_itself_where_it_is_given_nothing(caches: dict[str, str], how: dict[str, str]) -> None:
    _, key = _reads(caches)
    assert _reads(caches, **how) == (1, key)
