"""Libdevice for `npu`: complete, with CUDA's signatures, and friendlier about types."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import pytest
import torch
import triton
from triton.compiler.errors import CompilationError
from triton.language.extra import libdevice as generic

from inductor_npu.simulator.triton_backend import libdevice
from inductor_npu.simulator.triton_backend.ttir.ir import Op
from inductor_npu.simulator.triton_backend.ttir.parser import parse
from tests.triton_features import ttir

from .kernels.support import compile_source


def extern_calls(expression: str, **arguments: str) -> list[Op]:
    """The extern_elementwise operations that `expression` of scalar kernel arguments (with their types) becomes."""
    source = f"@triton.jit\ndef kernel(out, {', '.join(arguments)}):\n    tl.store(out, {expression})\n"
    module = ttir(source, {"out": "*fp32", **arguments})
    return [op for op in parse(module).kernel.body.walk() if op.name == "tt.extern_elementwise"]


def test_every_function_of_tritons_generic_list_exists() -> None:
    names = {name for name, function in vars(generic).items() if inspect.isfunction(function)}
    assert names <= set(vars(libdevice))


@pytest.mark.parametrize(
    ("expression", "arguments", "symbol", "result"),
    [
        ("libdevice.exp(x)", {"x": "fp32"}, "__npu_exp_f32", "f32"),
        ("libdevice.exp(x)", {"x": "fp64"}, "__npu_exp_f64", "f64"),
        ("libdevice.exp(x)", {"x": "fp16"}, "__npu_exp_f32", "f32"),
        ("libdevice.isnan(x)", {"x": "bf16"}, "__npu_isnan_f32", "i32"),
        ("libdevice.pow(x, y)", {"x": "fp32", "y": "fp32"}, "__npu_pow_f32", "f32"),
        ("libdevice.pow(x, 2.0)", {"x": "fp64"}, "__npu_pow_f64", "f64"),
        ("libdevice.copysign(x, 1)", {"x": "fp32"}, "__npu_copysign_f32", "f32"),
        ("libdevice.mulhi(x, y)", {"x": "u32", "y": "u32"}, "__npu_mulhi_u32", "i32"),
        ("libdevice.clz(x)", {"x": "i64"}, "__npu_clz_i64", "i32"),
        ("libdevice.popc(x)", {"x": "i16"}, "__npu_popc_i32", "i32"),
        ("libdevice.jn(n, x)", {"n": "i32", "x": "fp64"}, "__npu_jn_f64", "f64"),
        ("libdevice.double2int_rn(x)", {"x": "fp64"}, "__npu_double2int_rn_f64", "i32"),
    ],
)
def test_a_call_names_function_and_type(expression: str, arguments: dict[str, str], symbol: str, result: str) -> None:
    (call,) = extern_calls(expression, **arguments)
    assert call.attrs["symbol"] == symbol and call.attrs["pure"] is True
    assert str(call.result.type) == result


def test_an_integer_exponent_keeps_its_own_version() -> None:
    (call,) = extern_calls("libdevice.pow(x, n)", x="fp32", n="i32")
    assert [str(operand.type) for operand in call.operands] == ["f32", "i32"]


def test_symbols_can_be_taken_apart() -> None:
    assert libdevice.symbol_parts("__npu_float2int_rn_f32") == ("float2int_rn", "f32")
    for other in ("__nv_expf", "__npu_exp", "exp_f32"):
        with pytest.raises(ValueError, match="is not a function"):
            libdevice.symbol_parts(other)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("libdevice.exp(n)", r"libdevice\.exp has no version for \(int32\); it takes \(fp32\); \(fp64\)"),
        ("libdevice.saturatef(d)", r"libdevice\.saturatef has no version for \(fp64\)"),
        ("libdevice.exp(x, x)", "libdevice.exp takes 1 arguments, 2 were given"),
    ],
)
def test_a_wrong_call_says_what_is_there(expression: str, message: str) -> None:
    with pytest.raises(CompilationError, match=message):
        extern_calls(expression, x="fp32", n="i32", d="fp64")


def test_it_cannot_be_called_outside_a_kernel() -> None:
    with pytest.raises(ValueError, match=r"triton\.jit"):
        libdevice.exp(1.0)


IMPORTED_AS_LIGER_DOES = """
from triton.language.math import fast_dividef, rsqrt, tanh
import triton.language as tl

assert tl.math.tanh is tanh and tl.math.rsqrt is rsqrt and rsqrt.__module__ == "triton.language.math"
assert not hasattr(tl.math, "no_such_function") and not hasattr(tl.math, "FUNCTIONS")
print(fast_dividef.__name__)
"""


def in_a_process(program: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, **environment}, capture_output=True, text=True, timeout=120
    )


upstreams_triton = pytest.mark.skipif(not hasattr(triton, "knobs"), reason="Ascend's Triton has names of its own there")


@pytest.mark.slow
@upstreams_triton
@pytest.mark.parametrize("first", ["", "import torch\n", "import triton\n"])
def test_libdevice_can_be_imported_from_tritons_math(first: str) -> None:
    done = in_a_process(first + IMPORTED_AS_LIGER_DOES)
    assert done.stdout.strip() == "fast_dividef", done.stderr


@upstreams_triton
def test_tritons_math_is_left_alone_where_another_provides_the_device() -> None:
    done = in_a_process("from triton.language.math import tanh", INDUCTOR_NPU_PROVIDER="none")
    assert "cannot import name 'tanh' from 'triton.language.math'" in done.stderr


@upstreams_triton
def test_functions_of_tritons_math_compute() -> None:
    source = """
from triton.language.math import tanh, fast_dividef

@triton.jit
def kernel(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    tl.store(out + i, tanh(value))
    tl.store(out + N + i, tl.math.pow(value, 2.0))
    tl.store(out + 2 * N + i, fast_dividef(value, tl.math.exp(value)))
"""
    x = torch.linspace(-3, 3, 64)
    out = torch.empty(3, 64, device="npu")
    compile_source(source)["kernel"][(1,)](x.to("npu"), out, N=64)
    torch.testing.assert_close(out.cpu(), torch.stack([x.tanh(), x**2, x / x.exp()]))
