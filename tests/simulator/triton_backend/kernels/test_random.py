"""`tl.rand` and its family: Philox-4x32-10, bit for bit, the same under the same seed on every machine."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import triton
import triton.language as tl

from tests.triton_features import needs_feature, require

from .support import assert_same

ROUND = (np.uint64(0xD2511F53), np.uint64(0xCD9E8D57))
KEY = (np.uint32(0x9E3779B9), np.uint32(0xBB67AE85))


def philox(seed: int, offset: np.ndarray, rounds: int = 10) -> list[np.ndarray]:
    """Four uint32 for each offset, as Salmon et al. define them (Parallel random numbers: as easy as 1, 2, 3; 2011)."""
    offset = offset.astype(np.uint64)
    low, high = np.uint64(0xFFFFFFFF), np.uint64(32)
    counter = [offset & low, offset >> high, np.zeros_like(offset), np.zeros_like(offset)]
    key = [np.uint32(seed & 0xFFFFFFFF), np.uint32((seed >> 32) & 0xFFFFFFFF)]
    with np.errstate(over="ignore"):
        for _ in range(rounds):
            a, b = ROUND[0] * counter[0], ROUND[1] * counter[2]
            counter = [(b >> high) ^ counter[1] ^ key[0], b & low, (a >> high) ^ counter[3] ^ key[1], a & low]
            key = [key[0] + KEY[0], key[1] + KEY[1]]
    return [word.astype(np.uint32) for word in counter]


def uniform(words: np.ndarray) -> np.ndarray:
    """Triton's map of 32 bits onto [0, 1)."""
    signed = words.view(np.int32)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


@triton.jit
def uniform_kernel(out, seed, start, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.rand(seed, start + offsets))


@triton.jit
def normal_kernel(out, seed, start, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.randn(seed, start + offsets))


@triton.jit
def integer_kernel(out, seed, start, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + offsets, tl.randint(seed, start + offsets))


@triton.jit
def four_kernel(out, seed, start, BLOCK: tl.constexpr, ROUNDS: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a, b, c, d = tl.randint4x(seed, start + offsets, ROUNDS)
    tl.store(out + offsets, a)
    tl.store(out + BLOCK + offsets, b)
    tl.store(out + 2 * BLOCK + offsets, c)
    tl.store(out + 3 * BLOCK + offsets, d)


SEEDS = [0, 42, 2**31 - 1, 0xDEADBEEF12345]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("start", [0, 1000, 2**33 + 5])
def test_randint_is_philox(device, seed, start):
    if start >= 2**32:
        require("high half of 64-bit products")
    out = torch.empty(256, dtype=torch.int32, device=device)
    integer_kernel[(2,)](out, seed, start, BLOCK=128)
    assert_same(out, torch.from_numpy(philox(seed, start + np.arange(256))[0].view(np.int32)))


@pytest.mark.parametrize("rounds", [6, 10])
def test_randint4x_gives_all_four_words(device, rounds):
    out = torch.empty(4, 64, dtype=torch.int32, device=device)
    four_kernel[(1,)](out, 7, 3, BLOCK=64, ROUNDS=rounds)
    assert_same(out, torch.from_numpy(np.stack(philox(7, 3 + np.arange(64), rounds)).view(np.int32)))


@pytest.mark.parametrize("seed", SEEDS)
def test_rand_is_uniform_in_0_to_1(device, seed):
    out = torch.empty(1024, device=device)
    uniform_kernel[(8,)](out, seed, 0, BLOCK=128)
    assert_same(out, torch.from_numpy(uniform(philox(seed, np.arange(1024))[0])))
    assert out.cpu().min() >= 0 and out.cpu().max() < 1


def test_randn_is_box_muller(device):
    out = torch.empty(4096, device=device)
    normal_kernel[(32,)](out, 42, 0, BLOCK=128)
    first, second = (uniform(word) for word in philox(42, np.arange(4096))[:2])
    radius = np.sqrt(-2.0 * np.log(np.maximum(first, np.float32(1e-7)).astype(np.float64)))
    expected = radius * np.cos(np.float64(np.float32(6.283185307179586)) * second.astype(np.float64))
    np.testing.assert_allclose(out.cpu().double().numpy(), expected, rtol=1e-4, atol=3e-6)
    assert abs(out.cpu().mean()) < 0.05 and abs(out.cpu().std() - 1) < 0.05


def test_the_same_seed_gives_the_same_numbers_whatever_the_tiling(device):
    first, second, third = (torch.empty(512, device=device) for _ in range(3))
    uniform_kernel[(4,)](first, 5, 0, BLOCK=128)
    uniform_kernel[(1,)](second, 5, 0, BLOCK=512)
    uniform_kernel[(4,)](third, 6, 0, BLOCK=128)
    assert_same(first, second.cpu())
    assert not torch.equal(first.cpu(), third.cpu())


@triton.jit
def wide_kernel(out, seed, BLOCK: tl.constexpr):
    counter = tl.arange(0, BLOCK).to(tl.uint64)
    zero = counter * 0
    a, _, _, _ = tl.philox(seed, counter, zero, zero, zero)
    tl.store(out + tl.arange(0, BLOCK), a.to(tl.int64, bitcast=True))


@pytest.mark.compiled
@needs_feature("high half of 64-bit products")
def test_philox_with_64_bit_words(device):
    out = torch.empty(32, dtype=torch.int64, device=device)
    wide_kernel[(1,)](out, 9, BLOCK=32)
    mask = 2**64 - 1
    expected = []
    for index in range(32):
        c, k = [index, 0, 0, 0], [9, 0]
        for _ in range(10):
            a, b = 0xD2E7470EE14C6C93 * c[0], 0xCA5A826395121157 * c[2]
            c = [(b >> 64) ^ c[1] ^ k[0], b & mask, (a >> 64) ^ c[3] ^ k[1], a & mask]
            k = [(k[0] + 0x9E3779B97F4A7C15) & mask, (k[1] + 0xBB67AE8584CAA73B) & mask]
        expected.append(c[0])
    assert_same(out, torch.from_numpy(np.array(expected, dtype=np.uint64).view(np.int64)))
