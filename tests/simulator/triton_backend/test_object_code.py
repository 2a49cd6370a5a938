"""Object code, read: every instruction of it can be encoded as LLVM wrote it down, for several processors."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Callable, Iterator

import llvmlite.binding as llvm
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from hypothesis import given, settings
from hypothesis import strategies as st

from inductor_npu.ascend.collect.afresh import compiled_afresh
from inductor_npu.simulator.triton_backend import codegen, object_code
from inductor_npu.simulator.triton_backend.codegen import CodegenOptions
from tests.codegen.golden_programs import PROGRAMS
from tests.triton_features import forget, has

from .kernels.support import QUICK, compile_source

AVX512 = "skylake-avx512"  # LLVM schedules for it so that short vectors are in registers beyond 15
HOST_HAS_AVX512 = "+avx512vl" in object_code.toolchain()[2].split(",")
needs_avx512 = pytest.mark.skipif(not HOST_HAS_AVX512, reason="this processor has no AVX-512VL")


@triton.jit
def nearest(x, out, planes, ROWS: tl.constexpr, COLUMNS: tl.constexpr, PLANE: tl.constexpr):
    """Each plane of `x` (37 x 38) enlarged to 70 x 75; elements 72 and 73 of a row are a chunk of their own."""
    column_tiles, row_tiles = tl.cdiv(75, COLUMNS), tl.cdiv(70, ROWS)
    span = tl.arange(0, PLANE)
    for tile in range(tl.program_id(0), column_tiles * row_tiles * planes, tl.num_programs(0)):
        c = (tile % column_tiles) * COLUMNS + tl.arange(0, COLUMNS)
        r = ((tile // column_tiles) % row_tiles) * ROWS + tl.arange(0, ROWS)
        plane = tile // (column_tiles * row_tiles)
        of_r = tl.minimum(tl.maximum((r.to(tl.float32) * 0.5285714285714286).to(tl.int32), 0), 36)
        of_c = tl.minimum(tl.maximum((c.to(tl.float32) * 0.5066666666666667).to(tl.int32), 0), 37)
        places = tl.reshape(38 * of_r[:, None] + of_c[None, :], [ROWS * COLUMNS])
        picked = tl.gather(tl.load(x + (1406 * plane + span), span < 1406), places, 0)
        at = c[None, :] + 75 * r[:, None] + 5250 * plane
        tl.store(out + at, tl.reshape(picked, [ROWS, COLUMNS]), (r < 70)[:, None] & (c < 75)[None, :])


@pytest.fixture
def fresh(monkeypatch) -> Iterator[pytest.MonkeyPatch]:
    """Kernels are compiled anew, as `monkeypatch` lets the compiler see the host."""
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    forget(nearest)
    yield monkeypatch
    forget(nearest)


def assembly(ir: str, cpu: str, features: str = "") -> str:
    """What LLVM writes down for the module `ir` on the processor `cpu`."""
    object_code._initialised()
    target = llvm.Target.from_triple("x86_64-unknown-linux-gnu")
    machine = target.create_target_machine(cpu=cpu, features=features, opt=2, reloc="pic", codemodel="small", jit=True)
    module = llvm.parse_assembly(ir)
    module.verify()
    object_code._optimise_briefly(module, machine)
    return machine.emit_assembly(module)


def refused(text: str) -> list[str]:
    """The instructions of an assembly text that LLVM's own assembler cannot encode, with its words.

    In another process: that assembler ends the one that it is in.
    """
    program = (
        "import sys, llvmlite.binding as llvm\n"
        "llvm.initialize_all_targets(); llvm.initialize_all_asmprinters(); llvm.initialize_native_asmparser()\n"
        "text = ''.join(f'\\\\{byte:02X}' for byte in sys.stdin.buffer.read())\n"
        "module = llvm.parse_assembly(f'module asm \"{text}\"')\n"
        "target = llvm.Target.from_triple('x86_64-unknown-linux-gnu')\n"
        "target.create_target_machine(cpu='sapphirerapids').emit_object(module)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], input=text.encode(), capture_output=True)
    complaints = done.stderr.decode().splitlines()
    assert done.returncode == 0 or any("error:" in line for line in complaints), complaints
    return [" ".join(pair) for pair in itertools.pairwise(complaints) if "error:" in pair[0]]


def irs_of(compile_all: Callable[[], object], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The modules that are compiled while `compile_all` runs."""
    seen: list[str] = []
    compile_object = object_code.compile_object

    def noted(ir: str, opt_level: int) -> bytes:
        seen.append(ir)
        return compile_object(ir, opt_level)

    monkeypatch.setattr(object_code, "compile_object", noted)
    compile_all()
    return seen


def enlarged(x: torch.Tensor) -> torch.Tensor:
    out = torch.zeros(*x.shape[:-2], 70, 75, device="npu")
    nearest[(4,)](x.to("npu"), out, x.shape[:-2].numel(), ROWS=8, COLUMNS=128, PLANE=2048, distinct_arguments=True)
    return out.cpu()


def test_the_reader_finds_what_cannot_be_encoded():
    good = "vmovmskpd %xmm3, %eax\nvpmovq2m %xmm16, %k0\n"
    assert refused(good) == []
    (complaint,) = refused(good + "vmovmskpd %xmm16, %eax\n")
    assert "vmovmskpd %xmm16" in complaint


def test_llvm_still_joins_masks_into_instructions_that_cannot_name_their_register(fresh):
    """When this fails, LLVM is mended (llvm/llvm-project#191304), and `compile_object` need not look any more."""
    fresh.setattr(codegen, "host_options", lambda: CodegenOptions(vector_bits=512, registers=32))
    (ir,) = irs_of(lambda: enlarged(torch.randn(2, 4, 37, 38)), fresh)
    assert any("vmovmskpd" in line for line in refused(assembly(ir, AVX512)))
    assert refused(assembly(ir, AVX512, "-avx512vl")) == []


@needs_avx512
def test_gathers_under_masks_read_every_lane_on_processors_with_avx_512(fresh):
    fresh.setattr(llvm, "get_host_cpu_name", lambda: AVX512)
    x = torch.randn(2, 4, 37, 38)
    taken: list[str] = []
    compiled = object_code._compiled
    fresh.setattr(
        object_code,
        "_compiled",
        lambda ir, opt_level, without="": taken.append(without) or compiled(ir, opt_level, without),
    )
    got = enlarged(x)
    assert torch.equal(got, torch.ops.aten.upsample_nearest2d(x, [70, 75], None))
    assert taken == ["", "-avx512vl"], "the first code was to be refused"


def test_what_looks_like_a_read_of_sign_bits_is_found_whatever_its_operands_are():
    texts = [f"v{name} %{vector}mm{number}, %{to}" for name in ("movmskps", "movmskpd", "pmovmskb")
             for vector in "xy" for number in (0, 7, 8, 15) for to in ("eax", "r9d", "esp")]  # fmt: skip
    for text in texts:
        ir = f'define void @f() {{\n call void asm sideeffect "{text}", ""()\n ret void\n}}'
        object_code._initialised()
        target = llvm.Target.from_triple("x86_64-unknown-linux-gnu").create_target_machine(cpu=AVX512)
        llvm.initialize_native_asmparser()
        assert object_code._SIGN_BITS.search(target.emit_object(llvm.parse_assembly(ir))), text


def test_every_instruction_of_the_golden_kernels_can_be_encoded(fresh):
    def compile_all() -> None:
        for program in map(PROGRAMS.get, ("gather", "pad", "argmax")):
            torch.compile(program.function)(*program.inputs())

    with torch.no_grad(), compiled_afresh():
        irs = irs_of(compile_all, fresh)
    assert len(irs) >= 3
    for ir, cpu in itertools.product(irs, (AVX512, "znver4")):
        text = assembly(ir, cpu)
        if re.search("movmsk", text):  # `compile_object` finds it, and makes that code again
            text = assembly(ir, cpu, "-avx512vl")
        assert refused(text) == []


GATHER = """
@triton.jit
def kernel(x, out, SIZE: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr, FACTOR: tl.constexpr,
           SHIFT: tl.constexpr, LIMIT: tl.constexpr, R: tl.constexpr, C: tl.constexpr):
    for r in range(tl.program_id(0) * R, ROWS, tl.num_programs(0) * R):
        rows, columns = (r + tl.arange(0, R))[:, None], tl.arange(0, C)[None, :]
        at = (columns.to(tl.float32) * FACTOR).to(tl.int32) + rows * SHIFT
        value = tl.load(x + at, (at < LIMIT) & (columns < COLUMNS), other=OTHER)
        tl.store(out + rows * COLUMNS + columns, value, (rows < ROWS) & (columns < COLUMNS))
"""
DTYPES = [torch.float32, torch.bfloat16, torch.int8, torch.int16, torch.int64]
if has("masked loads of float64"):
    DTYPES.append(torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("cpu", [pytest.param(AVX512, marks=needs_avx512), None], ids=["avx512", "host"])
@settings(QUICK, max_examples=8)
@given(
    dtype=st.sampled_from(DTYPES),
    columns=st.integers(1, 75),
    factor=st.sampled_from([0.0, 0.25, 0.5066666666666667, 1.0, 2.5]),
    shift=st.integers(0, 9),
    limit=st.integers(1, 200),
)
def test_gathers_are_right_with_vectors_of_every_width(fresh, bits, cpu, dtype, columns, factor, shift, limit):
    if cpu is not None:
        fresh.setattr(llvm, "get_host_cpu_name", lambda: cpu)
    fresh.setattr(codegen, "host_options", lambda: CodegenOptions(vector_bits=bits, registers=16 if bits < 512 else 32))
    x = (torch.randn(400) * 50).to(dtype)
    out = torch.zeros(11, columns, dtype=dtype, device="npu")
    kernel = compile_source(GATHER.replace("OTHER", "3"))["kernel"]
    kernel[(1,)](
        x.to("npu"), out, SIZE=400, ROWS=11, COLUMNS=columns, FACTOR=factor, SHIFT=shift, LIMIT=limit, R=4, C=128,
        distinct_arguments=True,
    )  # fmt: skip
    at = (np.arange(columns, dtype=np.float32) * np.float32(factor)).astype(np.int32)[None, :]
    at = torch.from_numpy(at + np.arange(11, dtype=np.int32)[:, None] * shift).long()
    assert torch.equal(out.cpu(), torch.where(at < limit, x[at], torch.tensor(3, dtype=dtype)))
