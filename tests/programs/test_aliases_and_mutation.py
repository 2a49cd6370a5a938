"""What shares memory in eager shares it in compiled code, and what is changed in place is changed for everybody."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.compile.helpers import assert_equal, check, counted, to_npu


def _same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "transposed": lambda x: x.t(),
    "sliced": lambda x: x[1:, ::2],
    "flat": lambda x: x.view(-1)[5:],
    "as_strided": lambda x: x.as_strided((3, 2), (2, 1), 4),
    "unfolded": lambda x: x.unfold(0, 2, 1),
    "diagonal": lambda x: x.diagonal(),
    "detached": lambda x: x.detach(),
    "expanded": lambda x: x.expand(2, 4, 6),
    "reinterpreted": lambda x: x.view(torch.int32),
}


def test_a_returned_view_of_an_input_is_a_view() -> None:
    x = torch.randn(4, 6)
    moved = to_npu(x)
    views, total = torch.compile(lambda x: ({name: view(x) for name, view in VIEWS.items()}, x.sum()))(moved)
    assert_equal(total, x.sum())
    for name, view in VIEWS.items():
        actual, expected = views[name], view(x)
        assert _same_memory(actual, moved), name
        assert (actual.stride(), actual.storage_offset()) == (expected.stride(), expected.storage_offset()), name
        assert_equal(actual, expected)


def test_an_input_that_is_returned_is_the_same_object() -> None:
    x = torch.randn(5).to("npu")
    same, other = torch.compile(lambda x: (x, x + 1), fullgraph=True)(x)
    assert same is x
    assert not _same_memory(other, x)


def test_two_results_share_memory() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y.t(), y[1], y.detach()

    x = torch.randn(4, 6)
    y, transposed, row, detached = torch.compile(fn, fullgraph=True)(x.to("npu"))
    y.zero_()
    for alias in (transposed, row, detached):
        assert _same_memory(alias, y)
        assert alias.cpu().abs().sum() == 0


def test_results_that_only_look_alike_do_not_share_memory() -> None:
    y, z = torch.compile(lambda x: (x * 2, x * 2), fullgraph=True)(torch.randn(40).to("npu"))
    y.zero_()
    assert z.cpu().abs().sum() > 0


@pytest.mark.slow
def test_a_changed_view_of_a_result_has_its_gradient() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x * 3
        y[1:3].mul_(x[:2])
        return y, y.t().sin()

    check(fn, torch.randn(4, 5, requires_grad=True), backward=True)


def test_an_input_that_is_changed_is_returned_with_a_view_of_it() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(1)
        return x[1], x * 2

    x = torch.randn(3, 4)
    moved = to_npu(x)
    row, twice = torch.compile(fn, fullgraph=True)(moved)
    assert _same_memory(row, moved)
    assert_equal((row, twice, moved), (x[1] + 1, (x + 1) * 2, x + 1))


CHANGES: tuple[Callable[[torch.Tensor, torch.Tensor], object], ...] = (
    lambda x, y: x.t().add_(y.t()),
    lambda x, y: x.view(-1)[3:9].copy_(y.view(-1)[:6]),
    lambda x, y: x.as_strided((3,), (7,), 1).fill_(5.0),
    lambda x, y: x[:, 1:].copy_(x[:, :-1].clone()),
    lambda x, y: x.index_add_(0, torch.tensor([1, 1, 2], device=x.device), y[:3]),
    lambda x, y: x.masked_fill_(y > 0, 9.0),
    lambda x, y: x.scatter_(1, y.argsort(1), y),
    lambda x, y: x.zero_().add_(y).clamp_(0, 1).div_(2),
    lambda x, y: torch.add(x, y, out=x),
    lambda x, y: x.copy_(y[:, :1]),
    lambda x, y: x.diagonal().copy_(y[:, 0]),
    lambda x, y: torch._foreach_mul_([x, y], 2.0),
)


@pytest.mark.slow
def test_inputs_are_changed() -> None:
    """One graph that changes each of its inputs in a way of its own."""

    def fn(inputs: list[torch.Tensor], y: torch.Tensor) -> torch.Tensor:
        before = sum(x.sum() for x in inputs)
        for change, x in zip(CHANGES, inputs):
            change(x, y)
        return before + y.sum()

    check(fn, [torch.randn(4, 6) for _ in CHANGES], torch.randn(4, 6))


@pytest.mark.parametrize(
    "change",
    [lambda x: x.resize_(2, 3).fill_(1.0), lambda x: x.transpose_(0, 1).mul_(2), lambda x: x.unsqueeze_(0).add_(1)],
    ids=["resized", "transposed", "unsqueezed"],
)
def test_an_input_gets_another_shape(change: Callable[[torch.Tensor], object]) -> None:
    """Dynamo breaks the graph where an input's shape is changed in place, and compiles what is before and after."""

    def fn(x: torch.Tensor) -> torch.Tensor:
        before = x.sum()
        change(x)
        return x + before

    check(fn, torch.randn(4, 6), fullgraph=False)


def test_a_changed_input_that_is_not_dense() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        x.mul_(2)[0] += 1
        return x.sum(0)

    check(fn, torch.randn(9, 12)[1::2, 2:7])


def test_inputs_that_overlap_are_changed() -> None:
    """Two views of one memory: a change of one is seen in the other, whatever the sizes."""

    def fn(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        y.add_(x.sum())
        return x + 1

    compiled, counter = counted(fn)
    for length in (10, 10, 16):
        memory = torch.randn(length)
        moved = to_npu(memory)
        expected = fn(memory[:6], memory[3:])
        actual = compiled(moved[:6], moved[3:])
        assert_equal((actual, moved), (expected, memory))
    assert counter.frame_count == 2


@pytest.mark.slow
def test_an_attribute_and_a_buffer_are_changed() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("total", torch.zeros(4))
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.total.add_(x.sum(0))
            self.calls += 1
            self.last = x * self.calls
            return self.last / (self.total.abs() + 1)

    expected, actual = Counter(), Counter().to("npu")
    compiled = torch.compile(actual)
    for _ in range(3):
        x = torch.randn(5, 4)
        assert_equal(compiled(x.to("npu")), expected(x))
        assert_equal((actual.total, actual.last, actual.calls), (expected.total, expected.last, expected.calls))


def test_set_data_of_a_parameter() -> None:
    layer = torch.nn.Linear(3, 3, bias=False).to("npu")
    compiled, counter = counted(layer)
    for _ in range(2):
        x = torch.randn(2, 3)
        torch.testing.assert_close(compiled(x.to("npu")).cpu(), x @ layer.weight.cpu().t())
        layer.weight.data = torch.randn(3, 3).to("npu")
    assert counter.frame_count == 1


def test_a_leaf_is_changed_without_gradients() -> None:
    def step(weight: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            weight.sub_(0.1 * x)
        return (weight * x).sum()

    check(step, torch.randn(6, requires_grad=True), torch.randn(6), backward=True)


def test_a_version_counter_counts_changes() -> None:
    """Autograd refuses a backward whose saved tensor compiled code has changed."""
    x = torch.randn(4, requires_grad=True, device="npu")
    y = x * 1
    loss = (y * y).sum()
    torch.compile(lambda y: y.mul_(2), fullgraph=True)(y.detach())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def _loss(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.gelu(x @ w).pow(2).sum()


def test_donated_buffers_give_the_same_gradients() -> None:
    """Buffers that only the backward reads are its to overwrite (`donated_buffer`): same gradients, step after step."""
    with torch._functorch.config.patch(donated_buffer=True):
        compiled = torch.compile(_loss, fullgraph=True)
        for _ in range(2):
            inputs = torch.randn(6, 8, requires_grad=True), torch.randn(8, 5, requires_grad=True)
            check(_loss, *inputs, compiled=compiled, backward=True)


def test_a_backward_that_overwrites_donated_buffers_cannot_keep_them() -> None:
    with torch._functorch.config.patch(donated_buffer=True):
        compiled = torch.compile(_loss, fullgraph=True)
        x, w = torch.randn(6, 8).to("npu"), torch.randn(8, 5, requires_grad=True, device="npu")
        compiled(x, w).backward()
        with pytest.raises(RuntimeError, match="donated_buffer=False"):
            compiled(x, w).backward(retain_graph=True)


@pytest.mark.parametrize("donated", [True, False])
def test_a_second_backward_with_what_was_retained(donated: bool) -> None:
    """A backward that is first called with retain_graph is compiled to overwrite nothing that is saved."""
    with torch._functorch.config.patch(donated_buffer=donated):
        x, w = torch.randn(6, 8), torch.randn(8, 5, requires_grad=True)
        moved = to_npu(w)
        loss = torch.compile(_loss, fullgraph=True)(x.to("npu"), moved)
        loss.backward(retain_graph=True)
        loss.backward()
        expected = _loss(x, w)
        expected.backward(retain_graph=True)
        expected.backward()
        assert_equal(moved.grad, w.grad)


def test_a_second_backward_without_it_is_an_error() -> None:
    w = torch.randn(8, 5, requires_grad=True, device="npu")
    loss = torch.compile(_loss, fullgraph=True)(torch.randn(6, 8).to("npu"), w)
    loss.backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        loss.backward()


def test_gradients_of_views_that_are_returned() -> None:
    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.exp()
        return y.view(-1)[::3], y.unbind(0)[1], x.t()

    check(fn, torch.randn(4, 6, requires_grad=True), backward=True)
