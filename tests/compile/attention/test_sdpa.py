"""scaled_dot_product_attention as kernels: results, gradients, masks, lengths; and what the kernels look like."""

from __future__ import annotations

import re

import pytest
import torch
import torch.nn.functional as F
from torch._dynamo.testing import CompileCounterWithBackend
from torch._inductor.utils import run_and_get_code, run_fw_bw_and_get_code

import inductor_npu.config as config
from inductor_npu.errors import NpuWarning
from tests.compile.attention.cases import assert_close, attention, check, heads, kernels, on_npu, with_gradients

LENGTHS = [(1, 1), (7, 130), (65, 65), (130, 7), (1, 200)]


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("rows", "columns"), LENGTHS)
def test_lengths(rows: int, columns: int, is_causal: bool) -> None:
    check(attention(is_causal=is_causal), heads(1, 2, rows, columns, 32))


@pytest.mark.parametrize("dim", [8, 32, 40, 64, 72, 80, 96, 128, 256])
def test_dimensions_of_heads(dim: int) -> None:
    check(attention(is_causal=True), heads(1, 2, 40, 40, dim))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_dtypes(dtype: torch.dtype) -> None:
    check(attention(is_causal=True), heads(2, 3, 130, 130, 64, dtype))


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(65, 70), (2, 1, 65, 70), (1, 2, 1, 70), (2, 2, 65, 1)])
@pytest.mark.parametrize("kind", ["bool", "float"])
def test_masks(shape: tuple[int, ...], kind: str) -> None:
    """A query that sees no key has the result 0, as in eager."""
    generator = torch.Generator().manual_seed(1)
    numbers = torch.randn(shape, generator=generator)
    mask = numbers > -0.5 if kind == "bool" else numbers
    if kind == "bool" and shape[-2] > 3:
        mask[..., 3, :] = False
    check(attention(), heads(2, 2, 65, 70, 32), mask)


def test_a_mask_of_the_least_number() -> None:
    """Models mask with it; a query all of whose keys are masked so sees all alike."""
    mask = torch.zeros(40, 40).masked_fill(torch.ones(40, 40).triu(1) > 0, torch.finfo(torch.float32).min)
    mask[5] = torch.finfo(torch.float32).min
    query, key, value = heads(1, 2, 40, 40, 32)
    actual, _ = kernels(attention(), query, key, value, mask)
    expected = F.scaled_dot_product_attention(query, key, value, mask)
    assert_close([actual], [expected], torch.float32)


@pytest.mark.parametrize("number", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite(number: float) -> None:
    query, key, value = heads(1, 1, 20, 20, 16)
    query[0, 0, 3, 2] = key[0, 0, 7, 1] = value[0, 0, 9, 4] = number
    actual, _ = kernels(attention(), query, key, value)
    assert_close([actual], [F.scaled_dot_product_attention(query, key, value)], torch.float32)


def test_a_scale() -> None:
    check(attention(scale=0.3), heads(1, 2, 20, 20, 16))


@pytest.mark.parametrize("is_causal", [False, True])
def test_grouped_queries(is_causal: bool) -> None:
    check(attention(is_causal=is_causal, enable_gqa=True), heads(2, 6, 65, 40, 32, shared=2))


@pytest.mark.slow
def test_operands_as_they_lie_in_memory() -> None:
    """Heads between positions, as a projection leaves them; keys in the same memory as values; a turned query."""

    def packed(joint: torch.Tensor, query: torch.Tensor) -> torch.Tensor:
        key, value = joint.unflatten(-1, (2, 4, 16)).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(query.transpose(-1, -2), key, value)

    torch.manual_seed(0)
    check(packed, [torch.randn(2, 33, 128), torch.randn(2, 4, 16, 20)])


def test_one_compile_for_all_lengths() -> None:
    counter = CompileCounterWithBackend("inductor")
    compiled = torch.compile(attention(is_causal=True), backend=counter, dynamic=True)
    for batch, rows, columns in ((2, 65, 70), (3, 130, 17), (4, 7, 140)):
        tensors = heads(batch, 3, rows, columns, 32)
        expected = with_gradients(attention(is_causal=True), [tensor.double() for tensor in tensors])
        assert_close(with_gradients(compiled, on_npu(tensors)), expected, torch.float32)
    assert counter.frame_count == 1


def test_one_kernel_without_scores_in_memory() -> None:
    _, (kernel,) = kernels(attention(is_causal=True), *heads(2, 4, 300, 300, 64, torch.float16))
    assert "# attention, forward: heads of 64 and 64" in kernel
    assert kernel.count("tl.dot(") == 2 and kernel.count("tl.store(") == 1
    vectors = re.findall(r"^.*(?:row|column)\b(?!0|_count).*(?://|%).*$", kernel, re.MULTILINE)
    assert not vectors, "indices of vectors are not divided"


@pytest.mark.slow
def test_three_kernels_and_delta() -> None:
    tensors = on_npu(heads(1, 2, 65, 65, 32))
    _, modules = run_and_get_code(lambda: with_gradients(torch.compile(attention()), tensors))
    assert [module.count("@triton.jit") for module in modules] == [1, 3]
    assert "65, 65)" not in "".join(modules), "no tensor of scores"


def test_masks_are_made_for_each_tile() -> None:
    def local(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, allowed: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            query = F.scaled_dot_product_attention(query, key, value, allowed[:, None, None, :].expand(2, 1, 40, 40))
        return query

    query, key, value = heads(2, 2, 40, 40, 32)
    allowed = torch.arange(80).reshape(2, 40) % 3 > 0
    actual, found = kernels(local, query, key, value, allowed)
    assert_close([actual], [local(query, key, value, allowed)], torch.float32)
    assert len(found) == 1, "both layers have one kernel, and no other writes the mask"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [
        ((1, 4, 65, 130), torch.float32),
        ((2, 4, 65, 130), torch.float16),
        ((65, 130), torch.bfloat16),
        ((2, 1, 1, 130), torch.float32),
    ],
)
def test_gradients_of_a_mask(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    """A learned bias, broadcast or not; the key at place 3 is left out, and so are all of the first query's."""
    tensors = heads(2, 4, 65, 130, 32, dtype, shared=2)
    bias = torch.linspace(-3, 3, torch.Size(shape).numel()).sin().reshape(shape).to(dtype)
    bias[..., 3] = -torch.inf
    if shape[-2] > 1:
        bias[..., 0, :] = -torch.inf
    check(attention(enable_gqa=True), [*tensors, bias])


def test_gradients_of_a_mask_by_the_library() -> None:
    bias = torch.linspace(-3, 3, 65).sin()[:, None].expand(65, 130).contiguous()
    with config.patch(templates="none"):
        check(attention(enable_gqa=True), [*heads(2, 4, 65, 130, 32, shared=2), bias])


@pytest.mark.slow
def test_gradients_of_a_mask_take_no_kernel_more() -> None:
    """The kernel of queries' gradients stores those of scores; a mask that is not broadcast needs no sum."""
    inputs = on_npu([*heads(1, 2, 64, 64, 32), torch.zeros(1, 2, 64, 64)])
    _, modules = run_and_get_code(lambda: with_gradients(torch.compile(attention()), inputs))
    attentions = [module.count("# attention, ") for module in modules]
    assert attentions == [1, 2]
    assert sum("d_score, (column" in line for line in modules[1].splitlines()) == 1


def test_gradients_of_a_mask_in_one_compile_for_all_lengths() -> None:
    compiled = torch.compile(attention(), dynamic=True, fullgraph=True)
    for length in (33, 70):
        inputs = [*heads(2, 2, length, length, 16), torch.linspace(-1, 1, length).repeat(2, length, 1)]
        actual = with_gradients(compiled, on_npu(inputs))
        assert_close(actual, with_gradients(attention(), [each.double() for each in inputs]), torch.float32)


@pytest.mark.parametrize("case", ["templates", "float64", "dropout"])
def test_what_is_the_librarys(case: str) -> None:
    tensors = heads(1, 2, 20, 20, 16, torch.float64 if case == "float64" else torch.float32)
    options = {"dropout_p": 0.5} if case == "dropout" else {}
    with config.patch(templates="none" if case == "templates" else "auto"):
        _, found = kernels(attention(**options), *tensors)
    assert not any("# attention, forward" in kernel for kernel in found)


@pytest.mark.parametrize(("length", "is_kernel"), [(50, True), (64, True), (65, False), (128, True), (197, False)])
def test_where_blocks_are_mostly_padding_the_embedded_npus_library_is_faster_in_training(
    length: int, is_kernel: bool
) -> None:
    with config.patch(templates="auto"):
        tensors = [tensor.requires_grad_() for tensor in on_npu(heads(1, 1, length, length, 16))]
        _, modules = run_fw_bw_and_get_code(lambda: torch.compile(attention())(*tensors))
    assert any("# attention, forward" in module for module in modules) == is_kernel


def test_padding_does_not_matter_without_gradients() -> None:
    with config.patch(templates="auto"):
        _, found = kernels(attention(), *heads(1, 1, 65, 65, 16))
    assert any("# attention, forward" in kernel for kernel in found)


def test_eager_stand_in(monkeypatch: pytest.MonkeyPatch) -> None:
    from inductor_npu.codegen.scheduling import npu_scheduling

    monkeypatch.setattr(npu_scheduling, "compile_in_process", lambda name, source: RuntimeError("refused"))
    with config.patch(strict=False), pytest.warns(NpuWarning, match="scaled dot product"):
        check(attention(is_causal=True), heads(1, 4, 33, 40, 16))
    with config.patch(strict=False), pytest.warns(NpuWarning, match="scaled dot product"):
        check(attention(), [*heads(2, 4, 33, 40, 16), torch.linspace(-1, 1, 33 * 40).reshape(33, 40)])


@pytest.mark.slow
def test_memory_grows_with_the_length() -> None:
    """Scores of 2048 queries and as many keys would take 32 MiB, a tensor of queries 512 KiB."""
    tensors = on_npu(heads(1, 2, 2048, 2048, 32))
    compiled = torch.compile(attention(is_causal=True))
    leaves = [tensor.requires_grad_() for tensor in tensors]
    torch.npu.synchronize()
    before = torch.npu.memory_allocated()
    torch.npu.reset_peak_memory_stats()
    compiled(*leaves).sum().backward()
    assert torch.npu.max_memory_allocated() - before < 8 * 2**20
