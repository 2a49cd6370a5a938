"""Views, memory formats and storages of npu tensors."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t.view(6, 4),
        lambda t: t.view(-1),
        lambda t: t.t(),
        lambda t: t[1:, ::2],
        lambda t: t.unfold(1, 3, 2),
        lambda t: t.as_strided((2, 2), (6, 1), 3),
        lambda t: t.expand(3, 4, 6),
        lambda t: t.unsqueeze(0),
        lambda t: t.diagonal(),
        lambda t: t.reshape(2, 12),
        lambda t: t.view(torch.int32),
        lambda t: t.detach(),
        lambda t: t.flatten(),
        lambda t: t.movedim(0, 1),
    ],
)
def test_a_view_has_the_strides_of_the_cpu_and_shares_memory(view: Callable[[torch.Tensor], torch.Tensor]) -> None:
    cpu = torch.arange(24.0).reshape(4, 6)
    npu = cpu.npu()
    expected, actual = view(cpu), view(npu)
    assert actual.untyped_storage().data_ptr() == npu.untyped_storage().data_ptr()
    assert (actual.size(), actual.stride(), actual.storage_offset()) == (
        expected.size(),
        expected.stride(),
        expected.storage_offset(),
    )
    assert torch.equal(actual.cpu(), expected)


def test_writing_through_a_view_changes_the_base() -> None:
    base = torch.zeros(3, 4, device="npu")
    base.t()[1].fill_(5)
    base[2, :2] = torch.tensor([7.0, 8.0])
    assert base.tolist() == [[0, 5, 0, 0], [0, 5, 0, 0], [7, 8, 0, 0]]


def test_complex_views_are_lazy_and_right() -> None:
    cpu = torch.randn(3, 4, dtype=torch.complex64)
    npu = cpu.npu()
    assert torch.view_as_real(npu).untyped_storage().data_ptr() == npu.untyped_storage().data_ptr()
    assert npu.conj().is_conj() and npu.imag.untyped_storage().data_ptr() == npu.untyped_storage().data_ptr()
    assert torch.equal(npu.conj().cpu(), cpu.conj())
    assert torch.equal(npu.conj().imag.cpu(), cpu.conj().imag)
    torch.testing.assert_close((npu.conj() @ npu.t()).cpu(), cpu.conj() @ cpu.t())


def test_an_impossible_view_says_so() -> None:
    with pytest.raises(RuntimeError, match="view size is not compatible"):
        torch.ones(4, 6, device="npu").t().view(24)
    with pytest.raises(RuntimeError, match="out of bounds"):
        torch.ones(4, device="npu").as_strided((5,), (1,))


@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last])
def test_memory_formats_are_kept(memory_format: torch.memory_format) -> None:
    a = torch.randn(2, 3, 4, 5).to(memory_format=memory_format)
    npu = a.npu()
    for tensor in (npu, npu.clone(), npu * 2, torch.empty_like(npu), npu.to(torch.float16), npu.cpu()):
        assert tensor.is_contiguous(memory_format=memory_format)
    assert npu.contiguous().is_contiguous()
    assert torch.equal(npu.contiguous().cpu(), a)


def test_resize_keeps_elements_and_grows_the_storage() -> None:
    a = torch.arange(4.0, device="npu")
    a.resize_(2, 6)
    assert a.untyped_storage().nbytes() >= 48
    assert a.flatten()[:4].tolist() == [0, 1, 2, 3]
    a.resize_(2)
    assert a.tolist() == [0, 1]


def test_set_shares_a_storage() -> None:
    a, b = torch.arange(6.0, device="npu"), torch.empty(0, device="npu")
    b.set_(a.untyped_storage(), 2, (2, 2), (2, 1))
    assert b.tolist() == [[2, 3], [4, 5]]
    b.zero_()
    assert a.tolist() == [0, 1, 0, 0, 0, 0]
    b.set_(a)
    assert b.data_ptr() == a.data_ptr() and b.shape == a.shape
    b.set_()
    assert b.numel() == 0
    with pytest.raises(RuntimeError, match="device"):
        b.set_(torch.ones(3).untyped_storage())


def test_storages_resize_fill_and_copy() -> None:
    storage = torch.arange(4, dtype=torch.uint8, device="npu").untyped_storage()
    assert storage.is_npu and storage.device == torch.device("npu:0")
    storage.resize_(8)
    assert storage.nbytes() == 8 and storage.tolist()[:4] == [0, 1, 2, 3]
    storage.fill_(3)
    assert storage.cpu().tolist() == [3] * 8
    assert torch.UntypedStorage(4).npu().device == torch.device("npu:0")
    storage.resize_(0)
    assert storage.nbytes() == 0


def test_data_can_be_exchanged() -> None:
    a, b = torch.zeros(2, device="npu"), torch.ones(3, device="npu")
    a.data = b
    assert a.tolist() == [1, 1, 1]
    with pytest.raises(RuntimeError, match=r"incompatible tensor type|same device"):
        a.data = torch.sparse_coo_tensor(torch.tensor([[0]]), torch.tensor([1.0]), (3,))
