"""Whole models of transformers on `npu` against eager on the CPU: inference, training, sequences of any length."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from torch._dynamo.testing import CompileCounterWithBackend

from models.zoo import MODELS, build

pytestmark = pytest.mark.slow

Values = dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def _forget_compiled_code() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("name", MODELS)
def test_inference(name: str, device: str) -> None:
    model, inputs, call = build(name)
    with torch.no_grad():
        expected = call(model, *inputs)

        compiled = torch.compile(model.to(device))
        actual = call(compiled, *(value.to(device) for value in inputs))

    assert actual.device.type == device
    assert_same({"output": actual}, {"output": expected})


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.quick] * (name == "gpt2")) for name in MODELS])
def test_training_step(name: str, device: str) -> None:
    """Loss, every gradient, every changed buffer and every parameter after one optimizer step."""
    model, inputs, call = build(name)
    model.train()
    on_device = copy.deepcopy(model).to(device)

    expected = step(model, call, inputs, compiled=False)
    actual = step(on_device, call, tuple(value.to(device) for value in inputs), compiled=True)

    assert_same(actual, expected)


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_one_compile_serves_every_sequence_length(name: str, device: str) -> None:
    model, inputs, call = build(name)
    counter = CompileCounterWithBackend("inductor")
    on_device = torch.compile(copy.deepcopy(model).to(device), backend=counter)

    for tokens in (17, 5, 12):
        shorter = [value[:, :tokens].contiguous() for value in inputs]
        moved = [value.to(device) for value in shorter]
        for value in moved:
            torch._dynamo.mark_dynamic(value, 1)
        with torch.no_grad():
            actual, expected = call(on_device, *moved), call(model, *shorter)
        assert_same({f"output for {tokens} tokens": actual}, {f"output for {tokens} tokens": expected})

    assert counter.frame_count == 1


def step(
    model: torch.nn.Module, call: Callable[..., torch.Tensor], inputs: tuple[torch.Tensor, ...], compiled: bool
) -> Values:
    """One training step; everything that it computes or changes, by name."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    output = call(torch.compile(model) if compiled else model, *inputs)
    # Weights of their own for all outputs: a plain sum has gradient 0 behind a normalisation.
    weights = torch.linspace(-1, 1, output.numel(), device=output.device).reshape(output.shape)
    loss = (output * weights).square().mean()
    loss.backward()
    optimizer.step()
    values = {"loss": loss}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            values[f"gradient of {name}"] = parameter.grad
        values[f"parameter {name}"] = parameter
    values.update((f"buffer {name}", buffer) for name, buffer in model.named_buffers())
    return values


def assert_same(actual: Values, expected: Values) -> None:
    """Equal up to float32's rounding in sums of another order: 1e-4 of each value, 2e-5 of the tensor's largest.

    A gradient that is zero in theory, such as that of a key's bias before a softmax, is nothing but rounding: 1e-6 of
    the largest gradient of all is allowed everywhere.
    """
    assert actual.keys() == expected.keys()
    gradients = [value.abs().max().item() for name, value in expected.items() if name.startswith("gradient")]
    floor = 1e-6 * max(gradients, default=0.0)
    for name, value in expected.items():
        largest = value.abs().max().item() if value.numel() else 0.0
        torch.testing.assert_close(
            actual[name].detach().cpu(),
            value.detach(),
            rtol=1e-4,
            atol=2e-5 * largest + floor,
            msg=lambda text, name=name: f"{name}: {text}",
        )
