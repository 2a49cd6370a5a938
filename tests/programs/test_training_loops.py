"""Training as users write it: mixed precision with a scaler, compiled autograd, learning rates that change, loaders
whose last batch is smaller, and what is saved and loaded in between.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from tests.compile.helpers import assert_equal


class _Network(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(12, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(F.gelu(self.first(x)))


def _graphs() -> int:
    """How many graphs were compiled since the last reset."""
    return torch._dynamo.utils.counters["stats"]["unique_graphs"]


@pytest.fixture(autouse=True)
def _fresh_counters() -> None:
    torch._dynamo.utils.counters.clear()


def _values(tensors: Any) -> list[torch.Tensor]:
    return [tensor.detach().cpu() for tensor in tensors]


# ---- mixed precision


def _train_with_a_scaler(device: str, model: nn.Module, batches: list[torch.Tensor]) -> tuple[list[float], list[Any]]:
    """Scales and parameters after each step."""
    model = copy.deepcopy(model).to(device)

    def loss_of(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.float16):
            return model(x).square().mean()

    loss_of = torch.compile(loss_of, fullgraph=True) if device == "npu" else loss_of
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler(device, init_scale=1024.0, growth_interval=2)
    scales, parameters = [], []
    for batch in batches:
        optimizer.zero_grad()
        scaler.scale(loss_of(batch.to(device))).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
        parameters.append([parameter.clone() for parameter in _values(model.parameters())])
    return scales, parameters


def test_mixed_precision_with_a_scaler_that_skips_a_step() -> None:
    batches = [torch.randn(16, 12) for _ in range(5)]
    batches[3] = batches[3] * 1e4  # its loss is beyond what float16 holds
    model = _Network()
    scales, parameters = _train_with_a_scaler("npu", model, batches)
    wanted_scales, wanted = _train_with_a_scaler("cpu", model, batches)
    assert scales == wanted_scales == [1024.0, 2048.0, 2048.0, 1024.0, 1024.0]
    assert_equal(parameters[3], parameters[2])
    for got, expected in zip(parameters[-1], wanted[-1]):
        torch.testing.assert_close(got, expected, rtol=2e-2, atol=2e-3)
    assert _graphs() == 1


# ---- compiled autograd


def _accumulated(model: nn.Module, x: torch.Tensor) -> None:
    model(x).square().mean().backward()


@pytest.mark.slow
@torch._dynamo.config.patch(compiled_autograd=True)
def test_compiled_autograd_is_one_more_graph() -> None:
    reference = _Network()
    model = copy.deepcopy(reference).to("npu")
    train = torch.compile(_accumulated)
    x = torch.randn(16, 12)
    for _ in range(3):
        train(model, x.to("npu"))
        _accumulated(reference, x)
    assert_equal([each.grad for each in model.parameters()], [each.grad for each in reference.parameters()])
    assert torch._dynamo.utils.counters["compiled_autograd"]["captures"] >= 1


@pytest.mark.slow
def test_compiled_autograd_with_hooks_and_two_compiled_parts() -> None:
    from torch._dynamo import compiled_autograd

    def loss_of(first: Any, second: Any, x: torch.Tensor) -> torch.Tensor:
        hidden = first(x)
        hidden.register_hook(lambda gradient: gradient.clamp(-0.01, 0.01) * 2)
        return second(hidden.relu()).square().sum()

    layers = nn.Linear(12, 20), nn.Linear(20, 3)
    on_npu = [copy.deepcopy(layer).to("npu") for layer in layers]
    x = torch.randn(16, 12)
    loss_of(*layers, x).backward()
    compiled = [torch.compile(layer) for layer in on_npu]
    with compiled_autograd._enable(torch.compile(fullgraph=True)):
        loss_of(*compiled, x.to("npu")).backward()
    for layer, wanted in zip(on_npu, layers):
        assert_equal([each.grad for each in layer.parameters()], [each.grad for each in wanted.parameters()])


# ---- optimizers


def _rate(device: str, value: float) -> torch.Tensor:
    return torch.tensor(value, device=device)


OPTIMIZERS: dict[str, Callable[[Any, str], torch.optim.Optimizer]] = {
    "AdamW, capturable": lambda parameters, device: torch.optim.AdamW(
        parameters, lr=_rate(device, 0.01), capturable=device == "npu", amsgrad=True
    ),
    "SGD, momentum": lambda parameters, device: torch.optim.SGD(
        parameters, lr=_rate(device, 0.1), momentum=0.9, nesterov=True, weight_decay=0.01
    ),
    "Adagrad": lambda parameters, device: torch.optim.Adagrad(parameters, lr=_rate(device, 0.1)),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_rate_that_changes_compiles_no_step_again(name: str) -> None:
    gradients = [[torch.randn(shape) for shape in ((20, 30), (30,), (5, 5))] for _ in range(5)]

    def trained(device: str) -> tuple[list[torch.Tensor], list[int]]:
        torch.manual_seed(1)
        parameters = [nn.Parameter(torch.randn(gradient.shape).to(device)) for gradient in gradients[0]]
        optimizer = OPTIMIZERS[name](parameters, device)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        step = torch.compile(optimizer.step) if device == "npu" else optimizer.step
        graphs = []
        for batch in gradients:
            for parameter, gradient in zip(parameters, batch):
                parameter.grad = gradient.to(device)
            step()
            schedule.step()
            graphs.append(_graphs())
        return _values(parameters), graphs

    (expected, _), (actual, graphs) = trained("cpu"), trained("npu")
    for got, wanted in zip(actual, expected):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert graphs[1:] == [graphs[1]] * 4, "what the first two steps compile serves the others"


# ---- loaders


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_smaller_last_batch_compiles_once_more(workers: int) -> None:
    data = TensorDataset(torch.randn(70, 12), torch.randint(0, 4, (70,)))
    loader = DataLoader(data, batch_size=32, num_workers=workers, pin_memory=True)

    def trained(device: str, model: nn.Module) -> tuple[list[float], list[int]]:
        model = copy.deepcopy(model).to(device)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        called = torch.compile(model) if device == "npu" else model
        losses, graphs = [], []
        for _ in range(3):
            for x, y in loader:
                assert x.is_pinned()
                loss = F.cross_entropy(called(x.to(device, non_blocking=True)), y.to(device, non_blocking=True))
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
                graphs.append(_graphs())
        return losses, graphs

    model = _Network()
    losses, graphs = trained("npu", model)
    wanted, _ = trained("cpu", model)
    torch.testing.assert_close(torch.tensor(losses), torch.tensor(wanted), rtol=1e-4, atol=1e-4)
    assert graphs == [1, 1, 2, 2, 2, 2, 2, 2, 2]


# ---- saving and loading


@pytest.mark.slow
def test_training_goes_on_from_a_file() -> None:
    def steps(model: nn.Module, optimizer: torch.optim.Optimizer, count: int) -> None:
        step = torch.compile(optimizer.step)
        for _ in range(count):
            optimizer.zero_grad()
            model(x).square().mean().backward()
            step()

    def fresh() -> tuple[nn.Module, torch.optim.Optimizer]:
        model = _Network().to("npu")
        model.compile(fullgraph=True)
        return model, torch.optim.AdamW(model.parameters(), lr=0.01)

    x = torch.randn(16, 12).to("npu")
    model, optimizer = fresh()
    steps(model, optimizer, 2)
    file = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, file)
    steps(model, optimizer, 2)

    file.seek(0)
    saved = torch.load(file, map_location="cpu", weights_only=True)
    again, resumed = fresh()
    again.load_state_dict(saved["model"])
    resumed.load_state_dict(saved["optimizer"])
    steps(again, resumed, 2)
    assert_equal(_values(again.parameters()), _values(model.parameters()))


def test_loading_weights_into_a_compiled_model_compiles_nothing() -> None:
    model, other = _Network().to("npu"), _Network()
    compiled = torch.compile(model)
    x = torch.randn(16, 12)
    compiled(x.to("npu"))
    assert {name.removeprefix("_orig_mod.") for name in compiled.state_dict()} == set(other.state_dict())
    model.load_state_dict(other.state_dict())
    assert_equal(compiled(x.to("npu")), other(x))
    assert _graphs() == 1
