"""Operators that users register: opaque to Inductor, decomposed, or with a lowering of their own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

from tests.compile.helpers import assert_equal, check, code_of, kernel_count, to_npu


@pytest.fixture
def library() -> Iterator[torch.library.Library]:
    with torch.library._scoped_library("programs", "FRAGMENT") as library:
        yield library


# Registered once for the process: a second registration of the same name would be an error.
@torch.library.custom_op("programs::clipped", mutates_args=())
def _clipped(x: torch.Tensor, low: float, high: float = 1.0) -> torch.Tensor:
    assert x.device.type in ("npu", "cpu")
    return x.clamp(low, high)


@_clipped.register_fake
def _(x: torch.Tensor, low: float, high: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


def _keep_mask(ctx: Any, inputs: tuple[Any, ...], output: torch.Tensor) -> None:
    x, low, high = inputs
    ctx.save_for_backward((x > low) & (x < high))


_clipped.register_autograd(lambda ctx, grad: (grad * ctx.saved_tensors[0], None, None), setup_context=_keep_mask)


@torch.library.custom_op("programs::add_to", mutates_args={"target"})
def _add_to(target: torch.Tensor, x: torch.Tensor, times: int) -> None:
    target.add_(x * times)


@torch.library.custom_op("programs::step", mutates_args={"states", "total"})
def _step(states: list[torch.Tensor], total: torch.Tensor | None) -> torch.Tensor:
    for state in states:
        state.mul_(2)
    if total is not None:
        total.add_(1)
    return sum(states) * 1


@_step.register_fake
def _(states: list[torch.Tensor], total: torch.Tensor | None) -> torch.Tensor:
    return torch.empty_like(states[0])


@torch.library.custom_op("programs::positive", mutates_args=())
def _positive(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@_positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("programs::halves", mutates_args=())
def _halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    rows = x.shape[0] // 2
    return x[:rows].clone(), x[rows:].clone().t().contiguous().t(), [x * 1, x.sum()]


@_halves.register_fake
def _(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    rows, columns = x.shape
    second = torch.empty_strided((rows - rows // 2, columns), (1, rows - rows // 2), device=x.device)
    return x.new_empty(rows // 2, columns), second, [torch.empty_like(x), x.new_empty(())]


def _calls(code: str) -> int:
    """How often a generated module calls an operator of these tests."""
    return len(re.findall(r"torch\.ops\.programs\.\w+\.default\(", code))


def test_an_opaque_operator_between_kernels() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.programs.clipped(x * 2, -0.5) + x

    check(fn, torch.randn(6, 9))
    (code,) = code_of(fn, torch.randn(6, 9).to("npu"))
    assert _calls(code) == 1
    assert kernel_count([code]) == 2


def test_gradients_of_an_opaque_operator() -> None:
    check(lambda x: _clipped(x.sin() * 2, -0.5) * x, torch.randn(30, requires_grad=True), backward=True)


def test_an_opaque_operator_with_dynamic_shapes() -> None:
    compiled = torch.compile(lambda x: _clipped(x.t(), 0.1, 0.9).sum(0), dynamic=True, fullgraph=True)
    for shape in ((3, 4), (7, 20)):
        check(lambda x: _clipped(x.t(), 0.1, 0.9).sum(0), torch.rand(shape), compiled=compiled)


def test_an_opaque_operator_gets_the_layout_that_eager_would_give_it() -> None:
    seen: list[tuple[int, ...]] = []

    with torch.library._scoped_library("programs", "FRAGMENT") as library:
        library.define("strides_of(Tensor x) -> Tensor", tags=(torch.Tag.needs_exact_strides,))

        def strides_of(x: torch.Tensor) -> torch.Tensor:
            seen.append(x.stride())
            return x.clone()

        library.impl("strides_of", strides_of, "CompositeExplicitAutograd")
        torch.library.register_fake("programs::strides_of", torch.empty_like, lib=library)
        check(lambda x: torch.ops.programs.strides_of((x + 1).permute(2, 0, 1)) * 2, torch.randn(3, 4, 5))
    assert seen[0] == seen[1] == (1, 20, 5)


def test_an_operator_that_changes_its_argument() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        _add_to(x, y.exp(), 3)
        z = y * 2
        _add_to(z[1:], y[1:], 2)
        return x + z

    check(fn, torch.randn(5, 4), torch.randn(5, 4))


def test_an_operator_that_changes_lists_and_what_is_optional() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        first = _step([x, y * 1], y)
        return first + y, _step([x], None)

    check(fn, torch.randn(8), torch.randn(8))


def test_an_operator_whose_results_have_sizes_from_data() -> None:
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        compiled = torch.compile(lambda x: _positive(x + 1).exp().sum(0) * 2, fullgraph=True)
        for x in (torch.randn(20), -torch.ones(20) * 5, torch.ones(20)):
            check(lambda x: _positive(x + 1).exp().sum(0) * 2, x, compiled=compiled)


def test_an_operator_with_several_results() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second, (same, total) = _halves(x.cos())
        return first + 1, second * 2, same - total

    check(fn, torch.randn(6, 5))


def test_an_operator_with_a_kernel_for_npu_of_its_own() -> None:
    @torch.library.custom_op("programs::which_kernel", mutates_args=(), device_types="cpu")
    def which_kernel(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    which_kernel.register_fake(torch.empty_like)
    which_kernel.register_kernel("npu", lambda x: x + 2)
    compiled = torch.compile(lambda x: which_kernel(x) * 10, fullgraph=True)
    torch.testing.assert_close(compiled(torch.zeros(3).to("npu")).cpu(), torch.full((3,), 20.0))


def test_a_composite_operator_disappears(library: torch.library.Library) -> None:
    library.define("scaled_sum(Tensor x, float scale) -> Tensor")
    library.impl("scaled_sum", lambda x, scale: (x * scale).sum(-1), "CompositeImplicitAutograd")

    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.ops.programs.scaled_sum(x + 1, 0.5) * 2

    check(fn, torch.randn(4, 50, requires_grad=True), backward=True)
    (code,) = code_of(fn, torch.randn(4, 50).to("npu"))
    assert _calls(code) == 0
    assert kernel_count([code]) == 1


def _define_double_plus(library: torch.library.Library) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    library.define("double_plus(Tensor x, Tensor y) -> Tensor")
    library.impl("double_plus", lambda x, y: 2 * x + y, "CompositeExplicitAutograd")
    torch.library.register_fake("programs::double_plus", lambda x, y: x + y, lib=library)
    return torch.ops.programs.double_plus


def test_an_operator_with_a_decomposition_fuses(library: torch.library.Library) -> None:
    from torch._inductor.decomposition import decompositions, fast_random_decomps, register_decomposition

    fast_random_decomps.cache_clear()  # Inductor copies its table when it first compiles
    double_plus = _define_double_plus(library)
    register_decomposition([double_plus.default])(lambda x, y: x * 2 + y)
    try:
        check(lambda x, y: double_plus(x.sin(), y) + 1, torch.randn(5, 6), torch.randn(6))
        codes = code_of(lambda x, y: double_plus(x.sin(), y) + 1, *(torch.randn(5, 6).to("npu") for _ in range(2)))
    finally:
        del decompositions[double_plus.default]
        fast_random_decomps.cache_clear()
    assert _calls(codes[0]) == 0
    assert kernel_count(codes) == 1


def test_an_operator_with_a_lowering_fuses(library: torch.library.Library) -> None:
    from torch._inductor.lowering import lowerings, make_pointwise, register_lowering
    from torch._inductor.virtualized import ops

    double_plus = _define_double_plus(library)

    @register_lowering(double_plus.default, broadcast=True)
    def lowered(x: Any, y: Any) -> Any:
        return make_pointwise(lambda a, b: ops.add(ops.mul(a, ops.constant(2, torch.float32)), b))(x, y)

    try:
        check(lambda x, y: double_plus(x.sin(), y) + 1, torch.randn(5, 6), torch.randn(6))
        codes = code_of(lambda x, y: double_plus(x.sin(), y) + 1, *(torch.randn(5, 6).to("npu") for _ in range(2)))
    finally:
        del lowerings[double_plus.default]
    assert _calls(codes[0]) == 0
    assert kernel_count(codes) == 1


def test_a_lowering_written_with_a_loop_body(library: torch.library.Library) -> None:
    """A user's `inner_fn` sees the index of each element, and may read elsewhere than where it writes."""
    from torch._inductor.ir import Pointwise
    from torch._inductor.lowering import lowerings, register_lowering
    from torch._inductor.virtualized import ops

    library.define("mirrored(Tensor x) -> Tensor")
    library.impl("mirrored", lambda x: x + x.flip(1), "CompositeExplicitAutograd")
    torch.library.register_fake("programs::mirrored", torch.empty_like, lib=library)
    operator = torch.ops.programs.mirrored

    @register_lowering(operator.default)
    def lowered(x: Any) -> Any:
        load, (rows, columns) = x.make_loader(), x.get_size()

        def inner(index: Any) -> Any:
            row, column = index
            return ops.add(load([row, column]), load([row, columns - 1 - column]))

        return Pointwise.create(
            device=x.get_device(), dtype=x.get_dtype(), inner_fn=inner, ranges=[rows, columns], origin_node=None
        )

    try:
        check(lambda x: operator(x * 2).relu(), torch.randn(7, 33))
        check(lambda x: operator(x * 2).relu(), torch.randn(7, 33), dynamic=True)
    finally:
        del lowerings[operator.default]


def test_an_operator_under_vmap() -> None:
    @torch.library.custom_op("programs::weighted", mutates_args=())
    def weighted(x: torch.Tensor, weight: float) -> torch.Tensor:
        return x * weight

    weighted.register_fake(lambda x, weight: torch.empty_like(x))
    weighted.register_vmap(lambda info, in_dims, x, weight: (weighted(x, weight), in_dims[0]))
    check(torch.vmap(lambda x: weighted(x.exp(), 3.0).sum()), torch.randn(4, 5))


def test_operators_pass_the_checks_of_torch_library_on_npu() -> None:
    """All but that of the autograd registration, which PyTorch has for its own devices only."""
    checks = ("test_schema", "test_faketensor", "test_aot_dispatch_dynamic")
    x = torch.randn(4, 3, device="npu", requires_grad=True)
    targets = torch.randn(3).to("npu"), torch.randn(3).to("npu"), 2
    for operator, arguments in ((_clipped, (x, -0.5)), (_add_to, targets)):
        verdicts = torch.library.opcheck(operator, arguments, test_utils=checks)
        assert verdicts == dict.fromkeys(checks, "SUCCESS")


def test_what_an_operator_changes_is_seen_through_aliases() -> None:
    x, y = torch.randn(6), torch.randn(6)
    moved = to_npu(x)
    view = moved[2:]

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        part = x[2:]
        _add_to(x, y, 1)
        return part * 2

    actual = torch.compile(fn, fullgraph=True)(moved, y.to("npu"))
    assert_equal((actual, view), ((x + y)[2:] * 2, (x + y)[2:]))
