"""Copies between the host and npus, with any dtype, strides, and without waiting."""

from __future__ import annotations

import pytest
import torch

DEVICES = ["cpu", "npu:0", pytest.param("npu:1", marks=pytest.mark.two_devices)]


@pytest.mark.parametrize("source", DEVICES)
@pytest.mark.parametrize("destination", DEVICES)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (300, 301)])
def test_between_any_two_devices(source: str, destination: str, shape: tuple[int, ...]) -> None:
    expected = torch.randn(shape)
    moved = expected.to(source).to(destination)
    assert moved.device == torch.device(destination)
    assert torch.equal(moved.cpu(), expected)


@pytest.mark.parametrize("source", DEVICES)
@pytest.mark.parametrize("destination", DEVICES)
def test_with_other_dtype_and_strides(source: str, destination: str) -> None:
    values = torch.arange(12.0).reshape(3, 4)
    target = torch.zeros(4, 6, dtype=torch.int32, device=destination)
    target[:, ::2].copy_(values.to(source).t())
    assert torch.equal(target[:, ::2].cpu(), values.t().to(torch.int32))
    assert target[:, 1::2].sum().item() == 0


def test_a_copy_broadcasts() -> None:
    target = torch.zeros(3, 4, device="npu")
    target.copy_(torch.arange(4.0))
    assert torch.equal(target.cpu(), torch.arange(4.0).expand(3, 4))
    with pytest.raises(RuntimeError, match="size"):
        target.copy_(torch.ones(5))


def test_without_waiting_from_and_to_pinned_memory() -> None:
    host = torch.randn(1 << 16).pin_memory()
    back = torch.empty(1 << 16, pin_memory=True)
    device = host.to("npu", non_blocking=True)
    back.copy_(device * 2, non_blocking=True)
    torch.npu.synchronize()
    assert torch.equal(back, host * 2)


def test_without_waiting_from_pageable_memory_is_safe() -> None:
    host = torch.ones(1 << 16)
    device = host.to("npu", non_blocking=True)
    host.zero_()
    assert device.sum().item() == 1 << 16


def test_large_copies_on_the_device_are_in_order_with_operators() -> None:
    a = torch.arange(1 << 20, device="npu")
    b = torch.empty_like(a)
    for step in range(5):
        a.add_(1)
        b.copy_(a)
        assert b[0].item() == step + 1
    assert torch.equal(b.cpu(), torch.arange(1 << 20) + 5)


def test_lazily_conjugated_and_negated_sources() -> None:
    cpu = torch.randn(4, dtype=torch.complex64)
    assert torch.equal(cpu.conj().npu().cpu(), cpu.conj())
    assert torch.equal(cpu.npu().conj().imag.clone().cpu(), cpu.conj().imag)


@pytest.mark.two_devices
def test_npu_methods_and_flags() -> None:
    a = torch.ones(2)
    assert not a.is_npu and a.npu().is_npu and a.npu(1).device == torch.device("npu:1")
    assert a.npu("npu:1").to("npu").device.index == 0
    module = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)).npu(1)
    assert {tensor.device for tensor in module.state_dict().values()} == {torch.device("npu:1")}


def test_a_device_that_does_not_exist_is_refused() -> None:
    with pytest.raises(RuntimeError, match="npu device index 7 is out of range"):
        torch.ones(2, device="npu:7")
