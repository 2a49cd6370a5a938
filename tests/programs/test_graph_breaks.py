"""What breaks a graph in two runs as it is written, between compiled parts; the parts hold what belongs to them."""

from __future__ import annotations

import pytest
import torch

from tests.compile.helpers import check, counted


def test_a_break_makes_two_graphs() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + 1
        torch._dynamo.graph_break()
        return y.cos() * x

    compiled, counter = counted(fn)
    check(fn, torch.randn(20, requires_grad=True), compiled=compiled, backward=True)
    assert counter.frame_count == 2


def test_a_break_is_an_error_in_a_full_graph() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return x + 1

    with pytest.raises(torch._dynamo.exc.Unsupported, match="graph_break"):
        torch.compile(fn, fullgraph=True)(torch.randn(3).to("npu"))


def test_a_branch_on_data() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        if x.sum() > 0:
            return x * 2
        return x - 1

    compiled, counter = counted(fn)
    for x in (torch.ones(5), -torch.ones(5), torch.ones(5) * 2):
        check(fn, x, compiled=compiled)
    assert counter.frame_count == 3


def test_a_loop_on_data() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        while x.norm() > 1:
            x = x / 2
        return x + 1

    check(fn, torch.randn(30) * 8, fullgraph=False)


def test_a_number_that_python_prints(capsys: pytest.CaptureFixture[str]) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        print("the sum is", int(y.sum().item()))
        return y + 1

    compiled, counter = counted(fn)
    actual = compiled(torch.ones(4).to("npu"))
    assert capsys.readouterr().out == "the sum is 8\n"
    assert counter.frame_count == 2
    torch.testing.assert_close(actual.cpu(), torch.full((4,), 3.0))


def test_a_function_that_is_not_compiled() -> None:
    @torch.compiler.disable
    def eager(x: torch.Tensor) -> torch.Tensor:
        assert not torch.compiler.is_compiling()
        return x * 3

    compiled, counter = counted(lambda x: eager(x + 1).relu() - 1)
    check(lambda x: eager(x + 1).relu() - 1, torch.randn(7), compiled=compiled)
    assert counter.frame_count == 2


def test_a_function_that_the_graph_calls_as_it_is() -> None:
    calls = []

    @torch.compiler.allow_in_graph
    def opaque(x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0)

    compiled, counter = counted(lambda x: opaque(x.exp()) * 2, fullgraph=True)
    check(lambda x: opaque(x.exp()) * 2, torch.randn(9), compiled=compiled)
    assert (counter.frame_count, calls) == (1, [])


def test_numpy_inside_of_a_graph() -> None:
    """NumPy's functions are traced as torch's; arrays are tensors of the CPU."""
    import numpy as np

    def fn(x: torch.Tensor) -> torch.Tensor:
        table = torch.from_numpy(np.arange(6, dtype=np.float32) ** 2).to(x.device)
        return x * table

    check(fn, torch.randn(3, 6))


def test_a_break_inside_of_a_context() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            y = x * 2
            torch._dynamo.graph_break()
            z = y + x
        return z * x

    check(fn, torch.randn(5, requires_grad=True), backward=True, fullgraph=False)


def test_an_exception_that_python_catches() -> None:
    def fn(x: torch.Tensor, lookup: dict[str, float]) -> torch.Tensor:
        try:
            factor = lookup["missing"]
        except KeyError:
            factor = 0.5
        return x * factor

    check(fn, torch.randn(5), {"present": 2.0})


def test_an_exception_that_reaches_the_caller_leaves_the_device_usable() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        raise ValueError("refused")
        return y

    compiled = torch.compile(fn)
    with pytest.raises(ValueError, match="refused"):
        compiled(torch.randn(3).to("npu"))
    check(lambda x: x + 1, torch.randn(3))


def test_hooks_on_tensors_and_modules() -> None:
    seen = []
    layer = torch.nn.Linear(4, 4)
    layer.register_forward_hook(lambda module, inputs, output: output * 2)

    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x * 3
        y.register_hook(lambda gradient: gradient * 0.5)
        return y.sin()

    x = torch.randn(2, 4)
    check(fn, x.clone().requires_grad_(), backward=True, fullgraph=False)
    expected = layer(x).detach()
    moved = layer.to("npu")
    torch.testing.assert_close(torch.compile(moved)(x.to("npu")).detach().cpu(), expected)
    assert seen == []


def test_generators_closures_and_containers() -> None:
    def fn(tensors: dict[str, torch.Tensor], order: list[str]) -> dict[str, torch.Tensor]:
        scale = len(order)

        def scaled() -> object:
            for name in order:
                yield name, tensors[name] * scale

        return dict(scaled())

    check(fn, {"a": torch.randn(3), "b": torch.randn(2, 2)}, ["b", "a"])
