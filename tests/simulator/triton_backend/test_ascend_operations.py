"""What only Ascend's Triton writes into TTIR, from text, so that it runs with every Triton."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from inductor_npu.simulator.triton_backend.compiler import NpuBackend
from inductor_npu.simulator.triton_backend.ttir.parser import parse
from inductor_npu.simulator.triton_backend.ttir.passes import simplify

ELEMENTS = {torch.float32: "f32", torch.float16: "f16", torch.int32: "i32", torch.int8: "i8", torch.int64: "i64"}
ROWS, COLUMNS = 4, 16


def text_of(line: str, element: str) -> str:
    """A kernel that loads one tile as %x and the next one as %y, and stores what `line` makes of them, %z."""
    tile, pointers = f"tensor<{ROWS}x{COLUMNS}x{element}>", f"tensor<{ROWS}x{COLUMNS}x!tt.ptr<{element}>>"
    size = ROWS * COLUMNS
    return f"""module {{
  tt.func public @k(%p: !tt.ptr<{element}>, %out: !tt.ptr<{element}>) {{
    %range = tt.make_range {{end = {size} : i32, start = 0 : i32}} : tensor<{size}xi32>
    %i = tt.reshape %range : tensor<{size}xi32> -> tensor<{ROWS}x{COLUMNS}xi32>
    %n = arith.constant {size} : i32
    %second = tt.addptr %p, %n : !tt.ptr<{element}>, i32
    %base = tt.splat %p : !tt.ptr<{element}> -> {pointers}
    %at = tt.addptr %base, %i : {pointers}, tensor<{ROWS}x{COLUMNS}xi32>
    %second_base = tt.splat %second : !tt.ptr<{element}> -> {pointers}
    %second_at = tt.addptr %second_base, %i : {pointers}, tensor<{ROWS}x{COLUMNS}xi32>
    %out_base = tt.splat %out : !tt.ptr<{element}> -> {pointers}
    %out_at = tt.addptr %out_base, %i : {pointers}, tensor<{ROWS}x{COLUMNS}xi32>
    %x = tt.load %at : {pointers}
    %y = tt.load %second_at : {pointers}
    {line.format(tile=tile)}
    tt.store %out_at, %z : {pointers}
    tt.return
  }}
}}
"""


def run(line: str, x: torch.Tensor) -> torch.Tensor:
    """The result of `line` on the embedded NPU; `x` has shape (2, 4, 16): %x and %y."""
    backend = NpuBackend(GPUTarget("npu", "Ascend910B3", 32))
    stages: dict[str, object] = {}
    backend.add_stages(stages, backend.parse_options({}))
    metadata: dict[str, object] = {}
    binary = stages["obj"](stages["llir"](text_of(line, ELEMENTS[x.dtype]), metadata), metadata)
    _, function, *_ = driver.active.utils.load_binary("k", binary, 0, 0)
    pointer = {torch.float32: "*fp32", torch.float16: "*fp16"}.get(x.dtype, f"*{ELEMENTS[x.dtype]}")
    source = SimpleNamespace(signature={"p": pointer, "out": pointer}, constants={}, fn=None)
    launch = driver.active.launcher_cls(source, SimpleNamespace(**metadata))
    out = torch.empty(ROWS, COLUMNS, dtype=x.dtype, device="npu")
    launch(1, 1, 1, driver.active.get_current_stream(0), function, None, None, None, None, x.to("npu"), out)
    return out.cpu()


def numbers(dtype: torch.dtype) -> torch.Tensor:
    return torch.randint(-100, 100, (2, ROWS, COLUMNS)).to(dtype)


@pytest.mark.parametrize("descending", ["false", "true"])
@pytest.mark.parametrize("dtype", ELEMENTS, ids=str)
def test_sort(dtype: torch.dtype, descending: str) -> None:
    x = numbers(dtype)
    got = run(f"%z = tt.sort %x, 1, {descending} : {{tile}} -> {{tile}}", x)
    assert torch.equal(got, x[0].sort(1, descending=descending == "true").values)


def test_a_sort_loses_no_value_where_some_are_not_numbers() -> None:
    x = numbers(torch.float32)
    x[0, :, 3] = float("nan")
    got = run("%z = tt.sort %x, 1, false : {tile} -> {tile}", x)
    assert torch.equal(got.nan_to_num(1000).sort(1).values, x[0].nan_to_num(1000).sort(1).values)


def test_a_sort_along_another_axis_is_refused() -> None:
    with pytest.raises(ValueError, match="only the last axis"):
        run("%z = tt.sort %x, 0, false : {tile} -> {tile}", numbers(torch.float32))


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("dtype", ELEMENTS, ids=str)
def test_flip(dtype: torch.dtype, axis: int) -> None:
    x = numbers(dtype)
    assert torch.equal(run(f"%z = tt.flip %x, {axis} : {{tile}} -> {{tile}}", x), x[0].flip(axis))


def test_remainder_has_the_sign_of_the_dividend() -> None:
    x = torch.randn(2, ROWS, COLUMNS) * 10
    assert torch.equal(run("%z = tt.mod %x, %y : {tile} {tile} -> {tile}", x), torch.fmod(x[0], x[1]))


@pytest.mark.parametrize("name", ["tan", "atan", "tanh", "log1p"])
@pytest.mark.parametrize(("dtype", "suffix"), [(torch.float32, "f"), (torch.float16, "Dh")], ids=str)
def test_functions_of_ascends_libdevice(name: str, dtype: torch.dtype, suffix: str) -> None:
    x = torch.rand(2, ROWS, COLUMNS).to(dtype)
    attributes = f'{{{{libname = "", libpath = "", pure = true, symbol = "__hmf_{name}{suffix}"}}}}'
    got = run(f"%z = tt.extern_elementwise %x {attributes} : ({{tile}}) -> {{tile}}", x)
    torch.testing.assert_close(got, getattr(torch, name)(x[0]))


@pytest.mark.parametrize("name", ["isnan", "isinf"])
def test_predicates_of_ascends_libdevice(name: str) -> None:
    x = torch.randn(2, ROWS, COLUMNS)
    x[0, 0, :2] = torch.tensor([float("nan"), float("inf")])
    truths = f"tensor<{ROWS}x{COLUMNS}xi1>"
    attributes = f'{{{{libname = "", libpath = "", pure = true, symbol = "__hmf_{name}"}}}}'
    call = f"%t = tt.extern_elementwise %x {attributes} : ({{tile}}) -> {truths}\n"
    assert torch.equal(run(f"{call}%z = arith.uitofp %t : {truths} to {{tile}}", x), getattr(torch, name)(x[0]).float())


def test_the_source_line_stays() -> None:
    text = text_of('%z = tt.flip %x, 1 : {tile} -> {tile} loc("user.py":3:5)', "f32")
    module = parse(text)
    simplify(module)
    lines = {str(op.line) for op in module.kernel.body.walk() if op.name == "tt.reduce"}
    assert lines == {"user.py:3:5"}
