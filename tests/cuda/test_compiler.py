"""Kernels compile to code for a GPU without one: options, warps, libdevice, descriptors of tensors."""

from __future__ import annotations

import dataclasses

import pytest
import triton
import triton.language as tl
from triton.backends import backends
from triton.backends.compiler import GPUTarget
from triton.compiler import CompilationError
from triton.language.extra import libdevice

from inductor_npu.cuda.triton_backend.compiler import CudaNpuBackend, largest_tile, warps_of
from inductor_npu.cuda.triton_backend.image import unpacked
from inductor_npu.target import get_target
from inductor_npu.triton_npu.ascend_options import AscendOptions
from inductor_npu.triton_npu.launcher import letters_of
from tests.cuda.cubins import H100, compiled

POINTERS = {"x": "*fp32", "y": "*fp32"}


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + index, tl.load(x + index, index < n) * 2, index < n)


@triton.jit
def tanh(x, y, BLOCK: tl.constexpr):
    index = tl.arange(0, BLOCK)
    tl.store(y + index, libdevice.tanh(tl.load(x + index)))


@triton.jit
def copy_tile(source, target, BLOCK: tl.constexpr):
    target.store([0, 0], source.load([0, 0]))


@triton.jit
def copy_described(x, y, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [64, 64], [64, 1], [BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(y, [64, 64], [64, 1], [BLOCK, BLOCK])
    copy_tile(source, target, BLOCK)


@pytest.mark.usefixtures("cuda_backend")
def test_a_kernel_becomes_code_for_the_gpu() -> None:
    kernel = compiled(double, {**POINTERS, "n": "i32"}, {"BLOCK": 1024})
    assert kernel.kernel.startswith(b"\x7fELF") and ".target sm_90a" in kernel.asm["ptx"]
    cubin, threads = unpacked(kernel.kernel, "double")
    assert threads == 128 and kernel.kernel.startswith(cubin)
    assert kernel.metadata.target == H100 and kernel.metadata.name == "double"


@pytest.mark.usefixtures("cuda_backend")
@pytest.mark.parametrize(("block", "warps"), [(64, 1), (256, 2), (512, 4), (4096, 4), (8192, 8), (16384, 16)])
def test_the_largest_tile_says_how_many_warps(block: int, warps: int) -> None:
    kernel = compiled(double, {**POINTERS, "n": "i32"}, {"BLOCK": block})
    assert kernel.metadata.num_warps == warps and f".reqntid {32 * warps}" in kernel.asm["ptx"]


@pytest.mark.usefixtures("cuda_backend")
def test_what_the_launch_says_wins() -> None:
    kernel = compiled(double, {**POINTERS, "n": "i32"}, {"BLOCK": 1024}, num_warps=2, num_stages=5)
    assert (kernel.metadata.num_warps, kernel.metadata.num_stages) == (2, 5)
    assert ".reqntid 64" in kernel.asm["ptx"]


def test_of_several_tensors_the_one_with_most_elements_counts() -> None:
    assert largest_tile("tensor<16x!tt.ptr<f32>> tensor<4x8xf32> tensor<2x2x2xi1> tensor<1x9xbf16>") == 32
    assert largest_tile("!tt.ptr<f32> f32") == 1


def test_tiles_beyond_the_table_have_its_most_warps() -> None:
    chip = get_target("H100")
    assert [warps_of(elements, chip) for elements in (1, 129, 2048, 1 << 20)] == [1, 2, 4, 32]
    assert get_target("Ascend910B3").threads_of(1024) is None


def test_a_target_without_such_a_table_has_tritons_own_number() -> None:
    options = CudaNpuBackend(GPUTarget("npu", "Ascend910B3", 32)).parse_options({})
    assert (options.num_warps, options.warps_by_tile) == (4, False)


def test_options_for_an_npu_are_accepted_and_change_the_key_alone() -> None:
    backend = CudaNpuBackend(H100)
    ours = {"multibuffer": True, "distinct_arguments": True, "exclusive": True, "opt_level": 2}
    plain, given = backend.parse_options({}), backend.parse_options(ours)
    assert {name: getattr(given, name) for name in ours} == ours
    assert dataclasses.replace(given, **{name: getattr(plain, name) for name in ours}) == plain
    assert {field.name for field in dataclasses.fields(AscendOptions)} <= vars(plain).keys()
    assert given.hash() != plain.hash()


def test_the_key_of_compiled_kernels_has_the_targets_facts() -> None:
    assert CudaNpuBackend(H100).hash() != CudaNpuBackend(GPUTarget("npu", "H200", 32)).hash()
    assert "-90-" in CudaNpuBackend(H100).hash()


def test_it_compiles_for_npu_and_leaves_cuda_to_nvidias() -> None:
    assert CudaNpuBackend.supports_target(H100)
    assert not CudaNpuBackend.supports_target(GPUTarget("cuda", 90, 32))
    assert backends["nvidia"].compiler.supports_target(GPUTarget("cuda", 90, 32))


@pytest.mark.usefixtures("cuda_backend")
def test_libdevice_is_nvidias() -> None:
    kernel = compiled(tanh, POINTERS, {"BLOCK": 128})
    assert "__nv_tanhf" in kernel.asm["ttir"] and "__npu_" not in kernel.asm["ttir"]


@pytest.mark.usefixtures("cuda_backend")
def test_libdevice_takes_what_nvidias_takes() -> None:
    with pytest.raises(CompilationError):
        compiled(tanh, {"x": "*fp16", "y": "*fp16"}, {"BLOCK": 128})


@pytest.mark.usefixtures("cuda_backend")
def test_descriptors_of_tensors_are_plain_pointers() -> None:
    """Made in the kernel or by its caller: no scratch, and the letters of the launcher are the kernel's parameters."""
    made = compiled(copy_described, POINTERS, {"BLOCK": 32})
    assert (made.metadata.global_scratch_size, made.metadata.tensordesc_meta) == (0, [])
    type_ = "tensordesc<fp32[32,32]>"
    given = compiled(copy_tile, {"source": type_, "target": type_}, {"BLOCK": 32})
    assert given.metadata.tensordesc_meta == []
    parameters = given.asm["ptx"].count(".param") - given.asm["ptx"].count("ld.param")
    if triton.__version__ < "3.7":  # later ones pass one more flag with each
        assert parameters == 2 * len(letters_of(type_)) + 2
