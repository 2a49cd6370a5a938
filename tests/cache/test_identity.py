"""What decides a kernel and a graph in the caches: each field and each knob, and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch._dynamo.utils import counters

from inductor_npu import config, identity
from inductor_npu.cache import kernel_key
from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.location import kernel_store
from inductor_npu.cache.misses import GENERATED_WITH, changes, explain
from inductor_npu.cache.store import Store
from tests.cache.programs import X, run, softmax

pytestmark = pytest.mark.compiled
Patch = pytest.MonkeyPatch


@pytest.fixture(autouse=True)
def asked_each_time(monkeypatch: Patch) -> None:
    """As in a new process: nothing of the key is remembered."""
    monkeypatch.setattr(kernel_key, "_versions", kernel_key._versions.__wrapped__)


# ---- kernels

# What each field follows, and how it is changed here.
CHANGES: dict[str, Callable[[Patch], None]] = {
    "target": lambda p: p.setattr(kernel_key, "_triton_target", _another_target),
    "compiler": lambda p: p.setattr(
        "inductor_npu.simulator.triton_backend.compiler.NpuBackend.hash", lambda self: "another"
    ),
    "triton": lambda p: p.setattr("torch._inductor.runtime.triton_compat.triton_key", lambda: "another"),
    "torch": lambda p: p.setattr(torch.version, "git_version", "another"),
    "device functions": lambda p: p.setattr(identity, "device_functions_identity", lambda: "another"),
    "launching": lambda p: p.setattr(identity, "launching_identity", lambda: "another"),
    "ascend": lambda p: p.setattr(identity, "_ascend", lambda: "CANN 9"),
    "python": lambda p: p.setattr("platform.python_version_tuple", lambda: ("3", "99", "0")),
    "TRITON_DEFAULT_FP_FUSION": lambda p: p.setenv("TRITON_DEFAULT_FP_FUSION", "0"),
    "DISABLE_LLVM_OPT": lambda p: p.setenv("DISABLE_LLVM_OPT", "1"),  # one of those that Triton itself names
    "INDUCTOR_NPU_RECORD": lambda p: p.setenv("INDUCTOR_NPU_RECORD", "1"),
    "INDUCTOR_NPU_CHECKED": lambda p: p.setenv("INDUCTOR_NPU_CHECKED", "1"),
}


def _another_target() -> object:
    from triton.backends.compiler import GPUTarget

    return GPUTarget("npu", "Ascend910B4", 1)


@pytest.mark.parametrize("field", CHANGES)
def test_a_field_follows_what_it_is_named_after(field: str, monkeypatch: Patch) -> None:
    before = kernel_key.key_of("kernel", "source")
    assert kernel_key.key_of("kernel", "source").digest == before.digest
    CHANGES[field](monkeypatch)
    after = kernel_key.key_of("kernel", "source")
    # What a compiler says of itself names its target, too.
    assert set(before.differences(after)) - ({"compiler"} if field == "target" else set()) == {field}
    assert before.digest != after.digest


def test_part_of_torch_that_kernels_import(monkeypatch: Patch) -> None:
    before = kernel_key.key_of("kernel", "source")
    monkeypatch.setattr(kernel_key, "_torch_runtime", lambda: "another")
    assert before.differences(kernel_key.key_of("kernel", "source")) == ["torch"]


def test_the_source() -> None:
    assert kernel_key.key_of("kernel", "source").differences(kernel_key.key_of("kernel", "another")) == ["source"]


def test_every_field_is_tested_here() -> None:
    assert kernel_key.environment().keys() - CHANGES.keys() == set()


@pytest.mark.parametrize(
    "variable",
    [
        "HOME",
        "USER",
        "TMPDIR",
        "TORCHINDUCTOR_CACHE_DIR",
        "TRITON_CACHE_DIR",
        "INDUCTOR_NPU_CACHE",
        "INDUCTOR_NPU_CACHE_DIR",
        "INDUCTOR_NPU_CACHE_MIB",
        "INDUCTOR_NPU_WARMUP",
        "INDUCTOR_NPU_SIM_DEVICES",
        "INDUCTOR_NPU_SIM_MEMORY",
        "INDUCTOR_NPU_SIM_THREADS",
        "OMP_NUM_THREADS",
        "RANK",
        "LOCAL_RANK",
        "HOSTNAME",
    ],
)
def test_what_decides_no_code_is_in_no_key(variable: str, monkeypatch: Patch, tmp_path: Path) -> None:
    before = kernel_key.key_of("kernel", "source"), identity.toolchain_identity()
    monkeypatch.setenv(variable, str(tmp_path) if variable.endswith("DIR") or variable == "HOME" else "7")
    monkeypatch.chdir(tmp_path)
    assert (kernel_key.key_of("kernel", "source"), identity.toolchain_identity()) == before


@pytest.mark.parametrize("field", ["source", *CHANGES])
def test_a_miss_names_the_field(field: str, tmp_path: Path) -> None:
    key = kernel_key.key_of("kernel", "source")
    store = Store(tmp_path)
    store.write(Entry(Key(key.kind, {**key.fields, field: "of another kind"}), b"", {GENERATED_WITH: "{}"}))
    told = explain(store, key, "triton_poi_0", {})
    assert f"differs in {field} ({key.fields.get(field, 'absent')} here, of another kind there)" in told
    assert told.count(" here, ") == 1


# ---- graphs

KNOBS: dict[str, object] = {
    "strict": not config.strict,
    "fill_memory": not config.fill_memory,
    "pointwise_tile": config.pointwise_tile // 2,
    "reduction_tile": config.reduction_tile // 2,
    "tune_by": "model",
    "toolchain": "another",
    "graph_passes": "none",
    "accuracy": True,
    "templates": "none",
}


@pytest.fixture
def graphs(own_caches: Path) -> Callable[[], dict[str, int]]:
    """A function that compiles a program, and says how many of its graphs were found and were not."""

    def found() -> dict[str, int]:
        run(softmax, X)
        return {what: counters["inductor"][f"fxgraph_cache_{what}"] for what in ("hit", "miss")}

    assert found() == {"hit": 0, "miss": 1}
    return found


@pytest.mark.slow
@pytest.mark.parametrize("knob", KNOBS)
def test_each_knob_decides_a_graph(knob: str, graphs: Callable[[], dict[str, int]]) -> None:
    with config.patch(**{knob: KNOBS[knob]}):
        assert graphs() == {"hit": 0, "miss": 1}
        assert graphs() == {"hit": 1, "miss": 0}
    assert graphs() == {"hit": 1, "miss": 0}


def test_every_knob_is_tested_here() -> None:
    assert config.save_config_portable().keys() == KNOBS.keys()


def test_what_is_no_knob_of_the_code_decides_no_graph(graphs: Callable[[], dict[str, int]]) -> None:
    with config.patch(cache="must-hit"):
        assert graphs() == {"hit": 1, "miss": 0}


def test_another_user_of_the_same_versions_finds_the_same_kernel(own_caches: Path, tmp_path: Path) -> None:
    """The name of an entry has nothing of the place where it is: copied elsewhere, it is found there."""
    run(softmax, X)
    (listed,) = kernel_store().listed()
    copy = Store(tmp_path / "copied")
    path = copy.folder / listed.path.relative_to(kernel_store().folder)
    path.parent.mkdir(parents=True)
    path.write_bytes(listed.path.read_bytes())
    ((_, entry),) = kernel_store().entries()
    assert isinstance(entry, Entry)
    assert copy.read(entry.key) == entry


def test_of_long_values_the_part_that_differs_is_told() -> None:
    long = "NpuTarget(" + "fact=1, " * 40
    (told,) = changes({"target": f"{long}grid=8)"}, {"target": f"{long}grid=9)"})
    assert "grid=8) here" in told and "grid=9) there" in told
    assert len(told) < 250
