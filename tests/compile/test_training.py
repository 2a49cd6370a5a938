"""Training: gradients, matrix products and convolutions through the eager operator, optimizers, mixed precision."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

from tests.compile.helpers import assert_equal, check, code_of, kernel_count


def test_gradient_of_elementwise_code() -> None:
    x, y = torch.randn(40, 30, requires_grad=True), torch.randn(30, requires_grad=True)
    check(lambda x, y: torch.tanh(x * y).pow(2) + torch.softmax(x, -1), x, y, backward=True)


def test_gradient_of_normalisation() -> None:
    x, w, b = (torch.randn(shape, requires_grad=True) for shape in [(16, 128), (128,), (128,)])
    check(lambda x, w, b: torch.nn.functional.layer_norm(x, (128,), w, b), x, w, b, backward=True)


@pytest.mark.slow
def test_gradient_of_a_loss() -> None:
    logits = torch.randn(32, 10, requires_grad=True)
    target = torch.randint(0, 10, (32,))
    check(lambda x, t: torch.nn.functional.cross_entropy(x, t), logits, target, backward=True)


def test_matrix_products() -> None:
    a, b, c = torch.randn(17, 33), torch.randn(33, 9), torch.randn(9)
    check(lambda a, b, c: (a @ b + c, torch.addmm(c, a, b).relu(), a.t() @ a, torch.mv(a, b[:, 0])), a, b, c)
    torch._dynamo.reset()
    check(
        lambda a, b: (torch.bmm(a, b), torch.einsum("bij,bjk->bik", a, b)), torch.randn(3, 4, 5), torch.randn(3, 5, 6)
    )


def test_linear_layer_with_epilogue() -> None:
    x, w, b = (torch.randn(shape, requires_grad=True) for shape in [(20, 32), (64, 32), (64,)])
    check(lambda x, w, b: torch.nn.functional.gelu(torch.nn.functional.linear(x, w, b)), x, w, b, backward=True)


def test_convolution() -> None:
    x, w, b = (torch.randn(shape, requires_grad=True) for shape in [(2, 3, 10, 11), (4, 3, 3, 3), (4,)])
    check(lambda x, w, b: torch.relu(torch.nn.functional.conv2d(x, w, b, padding=1, stride=2)), x, w, b, backward=True)


def test_transposed_convolution() -> None:
    x, w = torch.randn(2, 4, 6, 6), torch.randn(4, 3, 3, 3)
    check(lambda x, w: torch.nn.functional.conv_transpose2d(x, w, stride=2).sigmoid(), x, w)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    q, k, v = (torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(3))
    attention = torch.nn.functional.scaled_dot_product_attention
    check(lambda q, k, v: attention(q, k, v, is_causal=causal) * 2, q, k, v, backward=True)


def _network() -> nn.Module:
    return nn.Sequential(nn.Linear(12, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 4))


def _train(
    model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor, y: torch.Tensor, compiled: bool
) -> list[float]:
    def loss_of(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(x), y)

    step = torch.compile(optimizer.step) if compiled else optimizer.step
    loss_of = torch.compile(loss_of, fullgraph=True) if compiled else loss_of
    losses = []
    for _ in range(3):
        optimizer.zero_grad()
        loss = loss_of(x, y)
        loss.backward()
        step()
        losses.append(loss.item())
    return losses


# By default most count their steps on the CPU, for which Inductor's C++ has to be compiled.
COUNTED_ON_NPU = "adamw, foreach, capturable"
OPTIMIZERS = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.01),
    "adamw, foreach": lambda parameters: torch.optim.AdamW(parameters, lr=0.01, foreach=True),
    COUNTED_ON_NPU: lambda parameters: torch.optim.AdamW(
        parameters, lr=0.01, foreach=True, capturable=parameters[0].device.type == "npu"
    ),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=0.01),
}


@pytest.mark.parametrize(
    "name",
    [name if name in ("sgd", COUNTED_ON_NPU) else pytest.param(name, marks=pytest.mark.slow) for name in OPTIMIZERS],
)
def test_training_step_with_compiled_optimizer(name: str) -> None:
    reference = _network()
    model = copy.deepcopy(reference).to("npu")
    x, y = torch.randn(16, 12), torch.randint(0, 4, (16,))
    expected = _train(reference, OPTIMIZERS[name](list(reference.parameters())), x, y, compiled=False)
    actual = _train(model, OPTIMIZERS[name](list(model.parameters())), x.to("npu"), y.to("npu"), compiled=True)
    torch.testing.assert_close(torch.tensor(actual), torch.tensor(expected), rtol=1e-4, atol=1e-4)
    for got, wanted in zip(model.parameters(), reference.parameters()):
        torch.testing.assert_close(got.detach().cpu(), wanted.detach(), rtol=1e-3, atol=1e-3)


@pytest.mark.slow
@pytest.mark.embedded
def test_optimizer_step_joins_small_tensors_in_one_kernel() -> None:
    """Large tensors share a kernel by themselves, as each keeps every core busy."""
    shapes = [(64, 64), (64,), (10, 128), (1,), (), (33, 65), (3, 3, 3, 3), (600, 1000), (600, 1000)]
    gradients = [torch.randn(shape) for shape in shapes]

    def optimized(device: str) -> tuple[list[torch.Tensor], torch.optim.Optimizer]:
        torch.manual_seed(1)
        parameters = [nn.Parameter(torch.randn(shape).to(device)) for shape in shapes]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.to(device)
        return parameters, torch.optim.AdamW(parameters, lr=0.01, foreach=True)

    expected, reference = optimized("cpu")
    actual, optimizer = optimized("npu")
    reference.step()
    sources = code_of(optimizer.step)
    assert_equal([parameter.detach() for parameter in actual], [parameter.detach() for parameter in expected])
    assert kernel_count(sources) == 2
    assert sum(source.count(".run(") for source in sources) == 3


@pytest.mark.parametrize("dynamic", [False, True])
def test_operations_on_lists_of_tensors(dynamic: bool) -> None:
    def step(x: list[torch.Tensor], y: list[torch.Tensor]) -> list[torch.Tensor]:
        torch._foreach_mul_(x, 0.9)
        torch._foreach_add_(x, y, alpha=0.1)
        return [*torch._foreach_sqrt(torch._foreach_abs(x)), *torch._foreach_norm(y)]

    compiled = torch.compile(step, dynamic=dynamic)
    for lengths in ([64, 4096, 0, 1, 33], [128, 100, 7, 16384, 20_000]):
        x, y = ([torch.randn(length) for length in lengths] for _ in range(2))
        check(step, x, y, compiled=compiled)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_autocast(dtype: torch.dtype) -> None:
    model = _network()
    x = torch.randn(16, 12)

    def forward(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        with torch.autocast(x.device.type, dtype=dtype):
            return model(x)

    expected = forward(model, x)
    on_npu = copy.deepcopy(model).to("npu")
    actual = torch.compile(forward, fullgraph=True)(on_npu, x.to("npu"))
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.detach().cpu().float(), expected.detach().float(), rtol=3e-2, atol=3e-2)
    actual.float().sum().backward()
    assert all(parameter.grad is not None for parameter in on_npu.parameters())


def test_activation_checkpointing() -> None:
    from torch.utils.checkpoint import checkpoint

    w = torch.randn(20, 20, requires_grad=True)
    x = torch.randn(8, 20, requires_grad=True)
    check(lambda x, w: checkpoint(lambda x, w: torch.tanh(x @ w).sin(), x, w, use_reentrant=False), x, w, backward=True)


def test_parameters_of_a_module_update_without_recompiling() -> None:
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("inductor")
    model = nn.Linear(4, 4).to("npu")
    compiled = torch.compile(model, backend=counter)
    x = torch.randn(3, 4).to("npu")
    first = compiled(x)
    with torch.no_grad():
        model.weight.mul_(2)
        model.bias.mul_(2)
    assert_equal(compiled(x), (first * 2).cpu())
    assert counter.frame_count == 1
