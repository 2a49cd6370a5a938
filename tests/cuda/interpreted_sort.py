"""Sorts rows with a GPU's `sort_with_index` and `sort_values` in Triton's interpreter; raises AssertionError if the
order is not eager's. Run with TRITON_INTERPRET=1.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from inductor_npu.cuda.triton_backend import device_functions


@triton.jit
def sort_rows(x, index, values, places, length, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    is_there = columns < length
    place = tl.arange(0, ROWS)[:, None] * length + columns[None, :]
    row = tl.load(x + place, is_there[None, :], other=0.0)
    numbers = tl.broadcast_to(tl.load(index + columns, is_there, other=0)[None, :], [ROWS, BLOCK])
    row, numbers = device_functions.sort_with_index(row, numbers, length, 1, True)
    tl.store(values + place, row, is_there[None, :])
    tl.store(places + place, numbers, is_there[None, :])


@triton.jit
def sort_values_of_rows(x, values, length, ROWS: tl.constexpr, BLOCK: tl.constexpr, DESCENDING: tl.constexpr):
    columns = tl.arange(0, BLOCK)
    is_there = columns < length
    place = tl.arange(0, ROWS)[:, None] * length + columns[None, :]
    row = tl.load(x + place, is_there[None, :], other=0)
    tl.store(values + place, device_functions.sort_values(row, length, 1, DESCENDING), is_there[None, :])


def main() -> None:
    check_positions()
    for dtype in (torch.float32, torch.float16, torch.int64, torch.int8, torch.uint8):
        for descending in (False, True):
            check_values(dtype, descending)


def check_values(dtype: torch.dtype, descending: bool) -> None:
    rows, length = 4, 17
    x = (torch.rand(rows, length) * 200 - (0 if dtype is torch.uint8 else 100)).to(dtype)
    if dtype.is_floating_point:
        x[1, 3], x[2, 5], x[2, 6] = float("nan"), float("inf"), float("-inf")
    else:
        x[1, 3], x[2, 5] = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    values = torch.empty_like(x)
    sort_values_of_rows[(1,)](x, values, length, rows, 32, descending)
    wanted = x.sort(dim=1, descending=descending).values
    torch.testing.assert_close(values, wanted, rtol=0, atol=0, equal_nan=True)


def check_positions() -> None:
    rows, length = 4, 17
    x = torch.randn(rows, length)
    x[1, 3] = float("nan")
    values, places = torch.empty_like(x), torch.empty(rows, length, dtype=torch.int16)
    index = torch.arange(length, dtype=torch.int16)
    sort_rows[(1,)](x, index, values, places, length, rows, 32)
    wanted = x.sort(dim=1, descending=True, stable=True)
    torch.testing.assert_close(values, wanted.values, rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(places.long(), wanted.indices, rtol=0, atol=0)


if __name__ == "__main__":
    main()
