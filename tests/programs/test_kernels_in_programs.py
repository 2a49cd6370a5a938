"""User-written Triton kernels with autotuning and heuristics, as operators (triton_op), with gradients, in modules."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from torch.library import triton_op, wrap_triton

from tests.compile.helpers import check, code_of, counted, kernel_count


def _configs() -> list[triton.Config]:
    return [triton.Config({"BLOCK": block}) for block in (64, 256)]


@triton.jit
def _axpy(x, y, out, n, scale, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < n
    tl.store(out + index, tl.load(x + index, mask=inside) * scale + tl.load(y + index, mask=inside), mask=inside)


_tuned_axpy = triton.autotune(configs=_configs(), key=["n"])(_axpy)


@triton.autotune(configs=_configs(), key=["n"], restore_value=["x"])
@triton.jit
def _add_in_place(x, n, value, BLOCK: tl.constexpr):
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + index, tl.load(x + index, mask=index < n) + value, mask=index < n)


@triton.heuristics({"BLOCK": lambda args: triton.next_power_of_2(args["columns"]), "EVEN": lambda args: False})
@triton.jit
def _row_sums(x, out, columns, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    if EVEN:
        values = tl.load(x + row * columns + column)
    else:
        values = tl.load(x + row * columns + column, mask=column < columns, other=0.0)
    tl.store(out + row, tl.sum(values, 0))


@triton.autotune(configs=[triton.Config({"ROWS": rows}) for rows in (1, 2)], key=["rows"])
@triton.heuristics({"BLOCK": lambda args: 128})  # Dynamo wants constants of heuristics below an autotuner
@triton.jit
def _row_maxima(x, out, rows, columns, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    for step in range(ROWS):
        row = tl.program_id(0) * ROWS + step
        inside = (column < columns) & (row < rows)
        values = tl.load(x + row * columns + column, mask=inside, other=float("-inf"))
        tl.store(out + row, tl.max(values, 0), mask=row < rows)


def _grid(n: int) -> Any:
    return lambda meta: (triton.cdiv(n, meta["BLOCK"]),)


@triton_op("programs::axpy", mutates_args={})
def _axpy_operator(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    out = torch.empty_like(x)
    wrap_triton(_tuned_axpy)[_grid(x.numel())](x, y, out, x.numel(), scale)
    return out


@_axpy_operator.register_kernel("cpu")
def _(x: torch.Tensor, y: torch.Tensor, scale: float) -> torch.Tensor:
    return x * scale + y


def _keep_scale(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    ctx.scale = inputs[2]


def _axpy_gradient(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, None]:
    return _axpy_operator(grad, torch.zeros_like(grad), ctx.scale), grad, None


_axpy_operator.register_autograd(_axpy_gradient, setup_context=_keep_scale)


@pytest.mark.slow
def test_an_operator_made_of_a_kernel() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return _axpy_operator(x.sin(), y, 3.0) * 2

    check(fn, torch.randn(700), torch.randn(700))
    (code,) = code_of(fn, torch.randn(700).to("npu"), torch.randn(700).to("npu"))
    assert "torch.ops.programs.axpy" not in code.split("def call(")[1]


def test_gradients_of_an_operator_made_of_a_kernel() -> None:
    inputs = torch.randn(300, requires_grad=True), torch.randn(300, requires_grad=True)
    check(lambda x, y: _axpy_operator(x * 2, y, 0.5).cos(), *inputs, backward=True)


def test_an_operator_made_of_a_kernel_outside_of_compiled_code() -> None:
    x, y = torch.randn(300), torch.randn(300)
    torch.testing.assert_close(_axpy_operator(x.to("npu"), y.to("npu"), 2.0).cpu(), x * 2 + y)


def test_an_autotuned_kernel_that_changes_its_argument_starts_from_what_it_was() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        _add_in_place[_grid(x.numel())](x, x.numel(), 1.5)
        return x * 2

    x = torch.randn(500)
    moved = x.to("npu")
    actual = torch.compile(fn, fullgraph=True)(moved)
    torch.testing.assert_close((actual.cpu(), moved.cpu()), ((x + 1.5) * 2, x + 1.5))


@pytest.mark.parametrize("kernel", [_row_sums, _row_maxima], ids=["heuristics", "autotune of heuristics"])
def test_parameters_that_heuristics_compute(kernel: Any) -> None:
    sums = kernel is _row_sums

    def fn(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty(x.shape[0], device=x.device)
        if sums:
            _row_sums[(x.shape[0],)](x, out, x.shape[1])
        else:
            _row_maxima[lambda meta: (triton.cdiv(x.shape[0], meta["ROWS"]),)](x, out, x.shape[0], x.shape[1])
        return out + 1

    for shape in ((5, 33), (7, 100)):
        x = torch.randn(shape)
        expected = (x.sum(1) if sums else x.amax(1)) + 1
        torch.testing.assert_close(torch.compile(fn, fullgraph=True)(x.to("npu")).cpu(), expected)


def test_an_autotuned_kernel_with_dynamic_shapes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        _tuned_axpy[_grid(x.numel())](x, y, out, x.numel(), 2.0)
        return out - y

    compiled, counter = counted(fn, fullgraph=True, dynamic=True)
    for length in (20, 333, 4000):
        x = torch.randn(length)
        torch.testing.assert_close(compiled(x.to("npu"), torch.ones(length).to("npu")).cpu(), x * 2)
    assert counter.frame_count == 1


def test_one_kernel_called_twice_with_other_parameters() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        first, second = torch.empty_like(x), torch.empty_like(x)
        _axpy[(4,)](x, x, first, x.numel(), 2.0, BLOCK=128)
        _axpy[(2,)](first, x, second, x.numel(), 1, BLOCK=256)
        return second

    x = torch.randn(512)
    torch.testing.assert_close(torch.compile(fn, fullgraph=True)(x.to("npu")).cpu(), x * 4)


def test_a_kernel_of_a_view_of_a_part() -> None:
    """A view whose memory begins elsewhere than its tensor's, and a tensor that compiled code has made."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        part, out = x[3:303], torch.zeros(320, device=x.device)
        _axpy[(3,)](part, part * 2, out[10:310], part.numel(), 1.0, BLOCK=128)
        return out

    x = torch.randn(400)
    expected = torch.zeros(320)
    expected[10:310] = x[3:303] * 3
    torch.testing.assert_close(torch.compile(fn, fullgraph=True)(x.to("npu")).cpu(), expected)


def test_a_kernel_in_an_autograd_function_of_a_module() -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor, factor: float) -> torch.Tensor:
            ctx.factor = factor
            out = torch.empty_like(x)
            _axpy[(triton.cdiv(x.numel(), 256),)](x, torch.zeros_like(x), out, x.numel(), factor, BLOCK=256)
            return out

        @staticmethod
        def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor, None]:
            grad = grad.contiguous()  # of a sum it is one number, expanded
            out = torch.empty_like(grad)
            _axpy[(triton.cdiv(grad.numel(), 256),)](
                grad, torch.zeros_like(grad), out, grad.numel(), ctx.factor, BLOCK=256
            )
            return out, None

    x = torch.randn(6, 50)
    moved = x.to("npu").requires_grad_()
    loss = torch.compile(lambda x: Scale.apply(x.sin(), 3.0).sum(), fullgraph=True)(moved)
    loss.backward()
    torch.testing.assert_close((loss.detach().cpu(), moved.grad.cpu()), ((x.sin() * 3).sum(), x.cos() * 3))


def test_what_is_around_a_kernel_is_fused_without_it() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = (x.sin() + 1).exp()
        out = torch.empty_like(y)
        _axpy[(4,)](y, y, out, y.numel(), 1.0, BLOCK=256)
        return (out * 2).relu() - 1

    sources = code_of(fn, torch.randn(1000).to("npu"))
    assert kernel_count(sources) == 3
