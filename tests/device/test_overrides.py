"""Operators for which PyTorch wants the device's own kernel: convolution, attention, recurrent cells, dropout."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention


def compare_modules(module: torch.nn.Module, *inputs: torch.Tensor) -> None:
    """Output and all gradients of `module` on npu agree with those on the CPU."""
    results: list[Any] = []
    for device in ("cpu", "npu"):
        twin = copy.deepcopy(module).to(device)
        arguments = [tensor.detach().to(device).requires_grad_() for tensor in inputs]
        output = twin(*arguments)
        first = output[0] if isinstance(output, tuple) else output
        first.square().sum().backward()
        gradients = [tensor.grad.cpu() for tensor in (*arguments, *twin.parameters())]
        results.append([first.detach().cpu(), *gradients])
    torch.testing.assert_close(results[1], results[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.Conv1d(4, 6, 3),
        torch.nn.Conv1d(4, 8, 3, groups=2, bias=False, dilation=2),
        torch.nn.ConvTranspose1d(4, 6, 3, stride=2),
    ],
)
def test_convolution_over_one_axis(module: torch.nn.Module) -> None:
    compare_modules(module, torch.randn(2, 4, 17))


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.Conv2d(4, 6, 3, padding=1, stride=2),
        torch.nn.Conv2d(4, 4, 3, groups=4),
        torch.nn.ConvTranspose2d(4, 6, 3, output_padding=1, stride=2),
    ],
)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_convolution_over_two_axes(module: torch.nn.Module, memory_format: torch.memory_format) -> None:
    compare_modules(module, torch.randn(2, 4, 9, 10).to(memory_format=memory_format))


def test_convolution_without_a_batch_and_over_three_axes() -> None:
    compare_modules(torch.nn.Conv2d(3, 5, 3), torch.randn(3, 8, 8))
    compare_modules(torch.nn.Conv3d(2, 3, 3), torch.randn(2, 2, 5, 6, 7))


def test_convolution_to_second_order() -> None:
    weight = torch.randn(2, 3, 3, device="npu", dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(1, 3, 6, device="npu", dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(torch.nn.functional.conv1d, (inputs, weight))


@pytest.mark.parametrize(
    "module",
    [
        torch.nn.LSTM(4, 5, num_layers=2, bidirectional=True),
        torch.nn.GRU(4, 5, batch_first=True),
        torch.nn.RNN(4, 5),
        torch.nn.LSTM(4, 5, bias=False),
        torch.nn.GRU(4, 5, bias=False),
    ],
)
def test_recurrent_networks(module: torch.nn.Module) -> None:
    compare_modules(module, torch.randn(3, 2, 4))


def test_packed_sequences() -> None:
    lstm, inputs = torch.nn.LSTM(4, 5), torch.randn(6, 3, 4)
    lengths = torch.tensor([6, 4, 2])
    packed = torch.nn.utils.rnn.pack_padded_sequence(inputs, lengths)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])
    actual, _ = torch.nn.utils.rnn.pad_packed_sequence(lstm.npu()(packed.npu())[0])
    torch.testing.assert_close(actual.cpu(), expected)


def attention(device: str, dtype: torch.dtype, **options: Any) -> list[torch.Tensor]:
    torch.manual_seed(0)
    tensors = [torch.randn(2, 3, 7, 8).bfloat16().to(device, dtype).requires_grad_() for _ in range(3)]
    options = {name: value.to(device) if isinstance(value, torch.Tensor) else value for name, value in options.items()}
    output = scaled_dot_product_attention(*tensors, **options)
    output.double().square().sum().backward()
    return [output.detach().cpu(), *(tensor.grad.cpu() for tensor in tensors)]


_KINDS_OF_ATTENTION = pytest.mark.parametrize(
    "options",
    [
        {},
        {"is_causal": True},
        {"scale": 0.3},
        {"attn_mask": torch.ones(7, 7, dtype=torch.bool).tril()},
        {"attn_mask": torch.linspace(-1, 1, 49).reshape(7, 7)},
    ],
    ids=["plain", "causal", "scale", "boolean mask", "additive mask"],
)


@pytest.mark.embedded  # whose kernels are the CPU's
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@_KINDS_OF_ATTENTION
def test_attention_is_that_of_the_cpu(dtype: torch.dtype, options: dict[str, Any]) -> None:
    if "attn_mask" in options and options["attn_mask"].dtype.is_floating_point:
        options = {"attn_mask": options["attn_mask"].to(dtype)}
    torch.testing.assert_close(attention("npu", dtype, **options), attention("cpu", dtype, **options))


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float64, 1e-14)])
@_KINDS_OF_ATTENTION
def test_attention_and_its_gradients(dtype: torch.dtype, bound: float, options: dict[str, Any]) -> None:
    """Against float64, as a part of the largest value: kernels of a chip sum in an order of their own."""
    mask = options.get("attn_mask")
    masks = {
        d: mask.to(d) if mask is not None and mask.dtype.is_floating_point else mask for d in (dtype, torch.float64)
    }
    results, exact = (
        attention(device, d, **(options if mask is None else {"attn_mask": masks[d]}))
        for device, d in (("npu", dtype), ("cpu", torch.float64))
    )
    for result, reference in zip(results, exact, strict=True):
        assert (result.double() - reference).abs().max() <= bound * reference.abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("shape", [(2, 3, 7, 7), (1, 3, 7, 7), (3, 7, 7), (7, 7), (2, 1, 1, 7)])
def test_the_gradient_of_a_mask(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    gradients = []
    for device in ("npu", "cpu"):
        mask = torch.linspace(-1, 1, 294)[: torch.Size(shape).numel()].reshape(shape)
        mask = (mask if mask.shape[-2] == 1 else mask.index_fill(-2, torch.tensor(3), -torch.inf)).to(device, dtype)
        mask.requires_grad_()
        gradients.append([*attention(device, dtype, attn_mask=mask, scale=0.5), mask.grad.cpu()])
    tolerance = 1e-5 if dtype == torch.float32 else 3e-2
    torch.testing.assert_close(*gradients, rtol=tolerance, atol=tolerance)


def test_attention_is_fused_unless_told_otherwise() -> None:
    q = torch.randn(1, 2, 4, 8, device="npu")
    assert torch._fused_sdp_choice(q, q, q) == SDPBackend.OVERRIDEABLE.value
    with sdpa_kernel(SDPBackend.MATH):
        assert torch._fused_sdp_choice(q, q, q) == SDPBackend.MATH.value
    assert torch._fused_sdp_choice(q, q, q, dropout_p=0.5) == SDPBackend.MATH.value


def test_fused_attention_has_the_strides_that_compiled_code_expects() -> None:
    q = torch.randn(2, 3, 7, 8, device="npu")
    actual = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(q, q, q)
    promised = torch.ops.aten._scaled_dot_product_fused_attention_overrideable(q.to("meta"), q.to("meta"), q.to("meta"))
    for index in (0, 1):
        assert actual[index].stride() == promised[index].stride()
        assert actual[index].dtype == promised[index].dtype


def test_dropout_follows_the_seed_of_the_device() -> None:
    a = torch.ones(10_000, device="npu")
    torch.manual_seed(5)
    first = torch.nn.functional.dropout(a, 0.25)
    torch.randn(3)  # the CPU's generator has no say
    torch.manual_seed(5)
    assert torch.equal(first, torch.nn.functional.dropout(a, 0.25))
    assert not torch.equal(first, torch.nn.functional.dropout(a, 0.25))
    assert abs((first == 0).float().mean().item() - 0.25) < 0.02
    assert first.unique().tolist() == pytest.approx([0, 4 / 3])
    assert torch.nn.functional.dropout(a, 1.0).sum().item() == 0


def test_sparse_tensors() -> None:
    dense = torch.tensor([[0.0, 1, 0], [2, 0, 3]])
    other = torch.randn(3, 2)
    for sparse in (dense.to_sparse(), dense.to_sparse_csr()):
        npu = sparse.to("npu")
        assert npu.device == torch.device("npu:0") and npu.layout == sparse.layout
        assert torch.equal(npu.to_dense().cpu(), dense)
        assert torch.equal(npu.cpu().to_dense(), dense)
        torch.testing.assert_close((npu @ other.npu()).cpu(), dense @ other)
    built = torch.sparse_coo_tensor(
        torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.ones(3), (2, 3), device="npu"
    ).coalesce()
    assert built.indices().device.type == "npu" and built.values().tolist() == [1.0, 2.0]
