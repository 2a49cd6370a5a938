"""Nested tensors on npu are what they are on the CPU: layout strided, layout jagged, and those that operators make."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from inductor_npu import providers
from tests.processes import run_python

LAYOUTS = (torch.strided, torch.jagged)
ROWS = [torch.linspace(-2, 2, 24).reshape(3, 8), torch.linspace(1, -1, 40).reshape(5, 8)]
WEIGHT = torch.linspace(-1, 1, 64).reshape(8, 8).cos()

pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")


def nested(device: str, layout: torch.layout, requires_grad: bool = False) -> torch.Tensor:
    made = torch.nested.nested_tensor(ROWS, device=device, layout=layout, requires_grad=requires_grad)
    return made.detach().requires_grad_() if requires_grad else made


def tensors_of(result: Any) -> list[torch.Tensor]:
    parts = result if isinstance(result, (list, tuple)) else [result]
    return [tensor for part in parts for tensor in (part.unbind() if part.is_nested else [part])]


def compare(make: Callable[[str], Any]) -> None:
    """What `make` gives on npu stays there, and is what it gives on the CPU."""
    expected, actual = tensors_of(make("cpu")), tensors_of(make("npu"))
    assert [tensor.device.type for tensor in actual] == ["npu"] * len(expected)
    for npu, cpu in zip(actual, expected, strict=True):
        bound = 1e-5
        if providers.current_provider() is providers.CUDA and cpu.numel() and cpu.is_floating_point():
            # It sums in an order of its own, and small values are what large ones leave.
            bound = max(bound, 5e-6 * cpu.detach().abs().max().item())
        torch.testing.assert_close(npu.detach().cpu(), cpu.detach(), rtol=1.3e-6, atol=bound)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_elements_move_between_devices_and_files(layout: torch.layout) -> None:
    def saved(x: torch.Tensor) -> torch.Tensor:
        file = io.BytesIO()
        torch.save(x, file)
        file.seek(0)
        return torch.load(file, weights_only=False)

    compare(lambda device: nested(device, layout))
    compare(lambda device: nested("cpu", layout).to(device))
    compare(lambda device: nested(device, layout).cpu().to(device).double())
    compare(lambda device: torch.zeros_like(nested(device, layout)).copy_(nested("cpu", layout)))
    compare(lambda device: saved(nested(device, layout)))
    assert nested("npu", layout).cpu().device.type == "cpu"
    assert torch.ones_like(nested("npu", layout), device="cpu").device.type == "cpu"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_operators(layout: torch.layout) -> None:
    def arithmetic(device: str) -> torch.Tensor:
        x = nested(device, layout)
        return F.silu(F.gelu(x.relu() + x * 2)).tanh().half().float()

    def in_place(device: str) -> torch.Tensor:
        x = nested(device, layout)
        return x.add_(x).mul_(3)

    compare(arithmetic)
    compare(in_place)
    compare(lambda device: F.softmax(F.linear(nested(device, layout), WEIGHT.to(device)), -1))
    compare(lambda device: torch.nested.to_padded_tensor(nested(device, layout), 0.5))
    compare(lambda device: [*nested(device, layout).chunk(2, -1), nested(device, layout)[1]])
    compare(lambda device: F.dropout(nested(device, layout), 0.0))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_gradients(layout: torch.layout) -> None:
    def gradients(device: str) -> list[torch.Tensor | None]:
        leaf = nested(device, layout, requires_grad=True)
        weight = WEIGHT.detach().clone().to(device).requires_grad_()
        ones = torch.ones(8, device=device)
        y = F.layer_norm(F.gelu(F.linear(leaf, weight)), [8], ones, ones)
        (torch.nested.to_padded_tensor(y, 0.0) ** 2 * torch.arange(8.0, device=device)).sum().backward()
        return [leaf.grad, weight.grad]

    compare(gradients)


def test_dropout_draws_from_the_device() -> None:
    x = torch.nested.nested_tensor([torch.ones(300)], device="npu")
    torch.npu.manual_seed(5)
    state = torch.get_rng_state()
    first = F.dropout(x, 0.5)
    torch.npu.manual_seed(5)
    second = F.dropout(x, 0.5)
    assert torch.equal(first.unbind()[0].cpu(), second.unbind()[0].cpu())
    assert torch.equal(torch.get_rng_state(), state)


def test_attention_of_jagged_tensors_is_trained() -> None:
    """It ended the process: an error was raised where C++ allows none."""

    def gradients(device: str, compiled: bool = False) -> list[torch.Tensor | None]:
        def attention(values: torch.Tensor) -> torch.Tensor:
            x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 6, 11, 14, 20], device=device))
            x = x.unflatten(-1, [2, 6]).transpose(1, 2)
            return F.scaled_dot_product_attention(x, x, x).values()

        values = torch.arange(240.0, device=device).reshape(20, 12).sin().requires_grad_()
        result = (torch.compile(attention) if compiled else attention)(values)
        result.square().sum().backward()
        return [result, values.grad]

    compare(gradients)
    compare(lambda device: gradients(device, compiled=device == "npu"))


def test_an_operator_that_takes_none_says_so_and_the_process_lives() -> None:
    for use in (lambda x: x.sort(-1), lambda x: F.conv1d(x, torch.ones(1, 8, 1, device="npu"))):
        with pytest.raises(NotImplementedError, match=r"takes no nested tensors of layout torch\.strided"):
            use(nested("npu", torch.strided))


@pytest.mark.slow
@pytest.mark.embedded
def test_the_process_outlives_operators_that_fail_while_gradients_are_recorded() -> None:
    finished = run_python(
        """
        import torch
        x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], device="npu", requires_grad=True)
        for use in (lambda: x.sin().exp(), lambda: x.sort(-1), lambda: x.sum(-1)):
            try:
                use()
            except RuntimeError as error:
                print(type(error).__name__)
        """
    )
    assert finished.lines() == ["NotImplementedError", "RuntimeError", "RuntimeError"]


def test_modules_whose_inference_makes_nested_tensors() -> None:
    torch.manual_seed(0)
    layer = torch.nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    encoder = torch.nn.TransformerEncoder(layer, 2).eval()
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval()
    x, padding = torch.randn(3, 5, 16), torch.zeros(3, 5, dtype=torch.bool)
    padding[:, 4] = padding[1, 2:] = True

    def forward(device: str) -> list[torch.Tensor]:
        with torch.no_grad():
            rows = nested(device, torch.strided)
            encoded = encoder.to(device)(x.to(device), src_key_padding_mask=padding.to(device))
            return [encoded, attention.to(device)(rows, rows, rows, need_weights=False)[0]]

    compare(forward)


def test_a_device_for_two() -> None:
    with pytest.raises(RuntimeError, match="at least two devices, npu:0 and cpu"):
        nested("npu", torch.strided) + nested("cpu", torch.strided)
