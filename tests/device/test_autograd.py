"""Autograd over npu tensors."""

from __future__ import annotations

import pytest
import torch
from torch.utils.checkpoint import checkpoint

from tests.device.npu_process import run_on_npu


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device="npu", dtype=torch.float64, requires_grad=True)


def test_gradients_are_right_to_second_order() -> None:
    assert torch.autograd.gradcheck(lambda a, b: torch.tanh(a @ b).sum(0), (leaf(3, 4), leaf(4, 2)))
    assert torch.autograd.gradgradcheck(lambda a: (a.exp() * a).sum(), (leaf(3),))


def test_gradients_through_views_and_in_place_writes() -> None:
    a = leaf(3, 4)
    b = a * 2
    b[:, 1].mul_(3)
    b.t()[0].zero_()
    b.sum().backward()
    assert a.grad is not None
    assert torch.equal(a.grad.cpu(), torch.tensor([0.0, 6, 2, 2], dtype=torch.float64).expand(3, 4))


def test_an_in_place_write_to_a_saved_tensor_is_found() -> None:
    a = leaf(3)
    b = a.exp()
    b.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        b.sum().backward()


def test_a_leaf_cannot_be_changed_in_place() -> None:
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        leaf(3).add_(1)


def test_hooks_see_npu_gradients() -> None:
    a, seen = leaf(3), []
    a.register_hook(lambda grad: seen.append(grad.device))
    a.register_post_accumulate_grad_hook(lambda tensor: seen.append(tensor.grad.sum().item()))
    (a * 2).sum().backward()
    assert seen == [torch.device("npu:0"), 6.0]


def test_a_checkpoint_recomputes_with_the_same_random_numbers() -> None:
    a = leaf(64)
    torch.manual_seed(1)
    expected = torch.nn.functional.dropout(a, 0.5).sin().sum()
    (expected_grad,) = torch.autograd.grad(expected, a)
    torch.manual_seed(1)
    actual = checkpoint(lambda x: torch.nn.functional.dropout(x, 0.5).sin().sum(), a, use_reentrant=False)
    (actual_grad,) = torch.autograd.grad(actual, a)
    assert torch.equal(actual_grad, expected_grad)


def test_a_custom_function_and_functional_transforms() -> None:
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, grad):
            return 2 * ctx.saved_tensors[0] * grad

    assert torch.autograd.gradcheck(Square.apply, (leaf(3),))
    a = torch.arange(3.0, device="npu")
    assert torch.func.vmap(torch.func.grad(lambda x: x**3))(a).tolist() == [0.0, 3.0, 12.0]
    assert torch.func.jvp(torch.sin, (a,), (torch.ones_like(a),))[1].tolist() == a.cos().tolist()


@pytest.mark.two_devices
def test_gradients_across_two_devices() -> None:
    a = leaf(3)
    (a.to("npu:1") * 3).cpu().sum().backward()
    assert a.grad is not None and a.grad.device == torch.device("npu:0")
    assert a.grad.tolist() == [3.0, 3.0, 3.0]


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.Adagrad])
@pytest.mark.parametrize("options", [{}, {"foreach": True}, {"fused": True}])
def test_optimizers_step_as_on_the_cpu(optimizer: type[torch.optim.Optimizer], options: dict[str, bool]) -> None:
    results = []
    for device in ("cpu", "npu"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
        inputs = torch.randn(16, 4)
        model.to(device)
        stepper = optimizer(model.parameters(), lr=0.1, **options)
        for _ in range(3):
            stepper.zero_grad()
            model(inputs.to(device)).square().mean().backward()
            stepper.step()
        results.append([parameter.detach().cpu() for parameter in model.parameters()])
    torch.testing.assert_close(results[1], results[0])


def test_python_ends_after_the_backward_passes_that_still_run() -> None:
    # CPython ends threads that want its lock after its own end, and with them the process (abort).
    finished = run_on_npu("""
        import threading, time, torch
        begun = threading.Event()
        def slow_hook(gradient):
            begun.set()
            time.sleep(0.5)
        a = torch.ones(3, device="npu", requires_grad=True)
        b = a * 2
        b.register_hook(slow_hook)
        threading.Thread(target=lambda: b.sum().backward(), daemon=True).start()
        begun.wait()
    """)
    assert (finished.returncode, finished.stderr) == (0, "")


@pytest.mark.slow
def test_python_does_not_wait_for_ever_for_a_backward_pass() -> None:
    finished = run_on_npu("""
        import threading, time, torch
        begun = threading.Event()
        def endless_hook(gradient):
            begun.set()
            time.sleep(1000)
        a = torch.ones(3, device="npu", requires_grad=True)
        b = a * 2
        b.register_hook(endless_hook)
        threading.Thread(target=lambda: b.sum().backward(), daemon=True).start()
        begun.wait()
    """)
    assert finished.stderr.startswith("inductor-npu: at exit, a backward pass on npu still runs")
