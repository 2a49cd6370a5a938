"""The backend that Triton sees: options, cache keys, what is stored, what happens when storing fails."""

from __future__ import annotations

import copy
import dataclasses
import errno
import json
import os
import pickle
import warnings
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.errors import CompilationError
from triton.runtime.errors import OutOfResources

from inductor_npu.errors import NpuWarning
from inductor_npu.simulator.triton_backend import cache, object_code
from inductor_npu.simulator.triton_backend.compiler import NpuBackend, NpuOptions
from inductor_npu.simulator.triton_backend.errors import UnifiedBufferExceededError, unsupported_operation
from inductor_npu.simulator.triton_backend.kernel_file import DamagedKernelError, KernelFile
from inductor_npu.simulator.triton_backend.ttir.ir import SourceLine
from inductor_npu.target import get_target, register_target
from tests.triton_features import forget

TARGET = GPUTarget("npu", "Ascend910B3", 32)


@triton.jit
def double(x_ptr, y_ptr, count, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < count
    tl.store(y_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) * 2, mask=mask)


@pytest.fixture
def triton_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache directory of Triton; kernels compiled before are forgotten."""
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    forget(double)
    yield tmp_path
    forget(double)


def run_double() -> None:
    x = torch.arange(100, dtype=torch.float32, device="npu")
    y = torch.empty_like(x)
    double[(1,)](x, y, 100, BLOCK=128)
    torch.testing.assert_close(y.cpu(), x.cpu() * 2)


def npu_warnings(caught: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in caught if issubclass(warning.category, NpuWarning)]


# ---- options and identity


def test_it_compiles_for_npu_only() -> None:
    assert NpuBackend.supports_target(TARGET)
    assert not NpuBackend.supports_target(GPUTarget("cuda", 90, 32))


def test_an_unknown_chip_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown NPU target 'TPU'"):
        NpuBackend(GPUTarget("npu", "TPU", 32))


def test_options_keep_what_is_known() -> None:
    options = NpuBackend(TARGET).parse_options({"num_warps": 8, "debug": True, "num_stages": None, "BLOCK": 4})
    assert (options.num_warps, options.debug, options.num_stages) == (8, True, NpuOptions.num_stages)
    assert options.arch == "Ascend910B3"
    assert not hasattr(options, "BLOCK"), "Triton reports unknown keywords itself, if they are not options"


def test_options_are_hashable_and_each_one_counts() -> None:
    backend = NpuBackend(TARGET)
    plain = backend.parse_options({})
    assert plain.hash() == backend.parse_options({}).hash()
    assert plain.hash() != backend.parse_options({"debug": True}).hash()
    assert plain.hash() != backend.parse_options({"opt_level": 3}).hash()
    assert isinstance(hash(backend.parse_options({"supported_fp8_dtypes": ["fp8e5"]})), int)


def test_fusion_of_multiply_and_add_follows_tritons_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = NpuBackend(TARGET)
    assert backend.parse_options({}).enable_fp_fusion
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert not backend.parse_options({}).enable_fp_fusion
    assert backend.parse_options({"enable_fp_fusion": True}).enable_fp_fusion


def test_the_key_depends_on_the_targets_facts() -> None:
    register_target(dataclasses.replace(get_target("Ascend910B3"), name="half", unified_buffer=96 * 1024))
    assert NpuBackend(TARGET).hash() != NpuBackend(GPUTarget("npu", "half", 32)).hash()
    assert NpuBackend(TARGET).hash() == NpuBackend(TARGET).hash()


# ---- the stored kernel


FILE = KernelFile(b"\x7fELF code", "entry", 4096, 128, ("x > 0, at k.py:3", "ü"))


def test_a_kernel_survives_packing() -> None:
    assert KernelFile.unpack(FILE.pack()) == FILE


@pytest.mark.parametrize("position", [0, 25, 60, -1])
def test_a_flipped_bit_is_noticed(position: int) -> None:
    data = bytearray(FILE.pack())
    data[position] ^= 1
    with pytest.raises(DamagedKernelError):
        KernelFile.unpack(bytes(data))


@pytest.mark.parametrize("length", [0, 10, 40, 100])
def test_a_truncated_file_is_noticed(length: int) -> None:
    with pytest.raises(DamagedKernelError):
        KernelFile.unpack(FILE.pack()[:length])


# ---- object code


IR = """
declare i32 @answer()
define i32 @entry() {
  %a = call i32 @answer()
  ret i32 %a
}
"""


def test_object_code_links_to_given_symbols() -> None:
    import ctypes

    answer = ctypes.CFUNCTYPE(ctypes.c_int32)(lambda: 42)
    code = object_code.compile_object(IR, 2)
    entry = object_code.load_function(code, "entry", {"answer": ctypes.cast(answer, ctypes.c_void_p).value})
    assert ctypes.CFUNCTYPE(ctypes.c_int32)(entry)() == 42


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_of_optimisation_runs(level: int, triton_cache: Path) -> None:
    x = torch.arange(100, dtype=torch.float32, device="npu")
    double[(1,)](x, x, 100, BLOCK=128, opt_level=level)
    assert torch.equal(x.cpu(), torch.arange(100) * 2.0)


def test_invalid_ir_is_llvms_error() -> None:
    with pytest.raises(object_code.LlvmError, match="value doesn't match function result type"):
        object_code.compile_object("define i32 @f() { ret i64 0 }", 2)


def test_a_missing_symbol_is_an_error() -> None:
    with pytest.raises(object_code.LlvmError, match="entry"):
        object_code.load_function(object_code.compile_object(IR, 0), "entry", {})


# ---- errors


def test_an_unsupported_operation_shows_the_source_line(tmp_path: Path) -> None:
    source = tmp_path / "user.py"
    source.write_text("@triton.jit\ndef kernel(x):\n    y = tl.strange(x)\n")
    error = unsupported_operation("kernel", "tt.strange", SourceLine(str(source), 3, 8), "there is no code for it")

    assert isinstance(error, CompilationError)
    assert str(error).splitlines() == [
        f"{source}:3:8:",
        "    y = tl.strange(x)",
        "        ^",
        "kernel kernel: tt.strange cannot be compiled for npu: there is no code for it",
    ]
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_unsupported_operation_without_a_source() -> None:
    assert "source line unknown" in str(unsupported_operation("k", "tt.x", None, "why"))
    assert "gone.py:3:0" in str(unsupported_operation("k", "tt.x", SourceLine("gone.py", 3), "why"))


def test_too_large_a_kernel_is_tritons_out_of_resources() -> None:
    tiles = ((131072, "tensor<32768xf32>", "k.py:5:8"),)
    error = UnifiedBufferExceededError(300000, 196608, "the Unified Buffer", "k", tiles)

    assert isinstance(error, OutOfResources)
    text = str(error)
    for part in ("kernel k", "300000", "196608", "smaller block sizes", "131072 bytes  tensor<32768xf32>  k.py:5:8"):
        assert part in text
    assert str(pickle.loads(pickle.dumps(error))) == str(copy.deepcopy(error)) == text


# ---- Triton's cache


@pytest.fixture
def stored(triton_cache: Path) -> Path:
    """The directory that holds the compiled kernel `double`."""
    run_double()
    (kernel,) = triton_cache.glob("*/double.obj")
    return kernel.parent


def test_a_cached_kernel_is_not_compiled_again(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    forget(double)
    monkeypatch.setattr(object_code, "compile_object", None)
    run_double()


def test_metadata_is_json(stored: Path) -> None:
    metadata = json.loads((stored / "double.json").read_text())
    assert metadata["name"] == "double" and metadata["shared"] == 512
    assert metadata["target"]["arch"] == "Ascend910B3"


@pytest.mark.parametrize("file", ["double.obj", "double.json"])
@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_kernel_is_compiled_again_with_one_warning(stored: Path, file: str, damage: str) -> None:
    data = bytearray((stored / file).read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 0x80
    (stored / file).write_bytes({"truncate": data[: len(data) // 2], "flip": data, "empty": b""}[damage])
    forget(double)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_double()
    (message,) = npu_warnings(caught)
    assert "cached kernel double" in message and "compiled again" in message

    forget(double)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_double()
    assert npu_warnings(caught) == [], "it was replaced by an intact one"


def test_a_full_disk_costs_one_warning(triton_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    replace = os.replace

    def full(source: str, destination: str) -> None:
        if str(destination).startswith(str(triton_cache)):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        replace(source, destination)

    monkeypatch.setattr(os, "replace", full)
    cache._warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_double()
        forget(double)
        run_double()
    (message,) = npu_warnings(caught)
    assert "No space left on device" in message and "TRITON_CACHE_DIR" in message


def test_a_cache_that_cannot_be_made_costs_one_warning(triton_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (triton_cache / "file").touch()
    monkeypatch.setenv("TRITON_CACHE_DIR", str(triton_cache / "file" / "cache"))
    cache._warn_once.cache_clear()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        run_double()
    assert len(npu_warnings(caught)) == 1
