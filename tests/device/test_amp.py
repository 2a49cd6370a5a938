"""Automatic mixed precision on npu."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_autocast_chooses_the_precision_of_each_operator(dtype: torch.dtype) -> None:
    a = torch.randn(4, 4, device="npu")
    with torch.autocast("npu", dtype=dtype):
        product = a @ a
        assert product.dtype == torch.nn.functional.linear(a, a).dtype == dtype
        assert (
            product.exp().dtype
            == torch.nn.functional.softmax(product, -1).dtype
            == product.sum().dtype
            == torch.float32
        )
        assert torch.cat([a, product]).dtype == (product + a).dtype == torch.float32
        assert torch.nn.functional.conv1d(a[None], a[:, :, None]).dtype == dtype
        with torch.autocast("npu", enabled=False):
            assert (a @ a).dtype == torch.float32
    assert (a @ a).dtype == torch.float32


def test_autocast_defaults_to_float16_and_says_what_it_does_not_take() -> None:
    a = torch.randn(2, 2, device="npu")
    with torch.autocast("npu"):
        assert (a @ a).dtype == torch.float16
    with (
        pytest.warns(UserWarning, match=r"(?i)npu.*autocast|autocast.*npu"),
        torch.autocast("npu", dtype=torch.float64),
    ):
        assert (a @ a).dtype == torch.float32
    with torch.npu.amp.autocast(dtype=torch.bfloat16):
        assert (a @ a).dtype == torch.bfloat16


def test_autocast_refuses_what_is_unsafe() -> None:
    with torch.autocast("npu"), pytest.raises(RuntimeError, match="unsafe to autocast"):
        torch.nn.functional.binary_cross_entropy(torch.rand(3, device="npu"), torch.rand(3, device="npu"))


def test_autocast_trains_with_a_scaler_as_without() -> None:
    losses = []
    for enabled in (False, True):
        torch.manual_seed(0)
        model = torch.nn.Linear(8, 1).npu()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        # Below what makes a gradient infinite in float16, so that the scaler skips no step.
        scaler = torch.amp.GradScaler("npu", init_scale=1024.0, enabled=enabled)
        inputs = torch.randn(32, 8, device="npu")
        for _ in range(5):
            optimizer.zero_grad()
            with torch.autocast("npu", enabled=enabled):
                loss = model(inputs).float().square().mean()
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        losses.append(loss.item())
    assert losses[1] == pytest.approx(losses[0], rel=0.02)


def test_the_scaler_skips_a_step_with_infinite_gradients() -> None:
    parameter = torch.nn.Parameter(torch.ones(2, device="npu"))
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    scaler = torch.npu.amp.GradScaler(init_scale=4.0, growth_interval=1)
    parameter.grad = torch.tensor([float("inf"), 1.0], device="npu")
    scaler.scale(torch.ones(1, device="npu"))
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [1.0, 1.0] and scaler.get_scale() == 2.0
    parameter.grad = torch.tensor([2.0, 2.0], device="npu")
    scaler.step(optimizer)
    scaler.update()
    assert parameter.tolist() == [0.0, 0.0] and scaler.get_scale() == 4.0


def test_autocast_reaches_custom_functions() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.npu.amp.custom_fwd(cast_inputs=torch.float32)
        def forward(ctx, a):
            return a @ a

        @staticmethod
        @torch.npu.amp.custom_bwd
        def backward(ctx, grad):
            return grad

    a = torch.randn(2, 2, device="npu", requires_grad=True)
    with torch.autocast("npu"):
        output = Product.apply(a.half())
    assert output.dtype == torch.float32
