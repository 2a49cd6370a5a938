"""The least and the largest number of each integer type: as constants, fillings, bounds and results."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from inductor_npu.codegen.emit.tile_kernel import TileOverrides
from tests.compile.helpers import check

INTEGERS = [torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8]

pytestmark = pytest.mark.usefixtures("every_graph_is_compiled")


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_constants(dtype: torch.dtype) -> None:
    least, most = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    x = torch.tensor([least, least + 1, 0, 1, 17, most - 1, most] * 3, dtype=dtype).view(3, 7)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (
            torch.full((5,), least, dtype=dtype, device=x.device),
            torch.full((5,), most, dtype=dtype, device=x.device),
            x.clamp(min=least, max=most - 1),
            torch.where(x > 3, x, least) + torch.where(x > 3, most, x),
            x.masked_fill(x == 17, least) == least,
            (x != most) & (x >= least + 1),
            F.pad(x, (1, 2), value=least).amax(0),
            F.pad(x, (0, 3), value=most).amin(1),
            torch.cat([x, torch.full_like(x, most)], 1).flip(1),
            x * 0 + least - 1,
            torch.tensor(most, dtype=dtype, device=x.device) - x,
        )

    check(fn, x)


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
@pytest.mark.parametrize("length", [3, 17, 5000])
def test_rows_that_hold_nothing_else(dtype: torch.dtype, length: int) -> None:
    """What stands beyond the end of a row is the other extreme."""
    x = torch.full((4, length), torch.iinfo(dtype).min, dtype=dtype)
    x[1:3] = torch.iinfo(dtype).max
    x[2, length // 2] -= 1

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.amax(1), x.amin(1), x.argmax(1), x.argmin(1), x.amax(0), x.amin(), x.cummax(1)[0]

    check(fn, x)


@pytest.mark.slow
@pytest.mark.parametrize("handed_over_as", ["its type", "the type of indices"])
def test_reductions_of_indices(handed_over_as: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Torch 2.11 hands over an index of int64 in the kernel's type of indices, int32, of which the least number of
    int64 is none, and in which sums would wrap.
    """
    if handed_over_as == "the type of indices":
        monkeypatch.setattr(TileOverrides, "value_expr", TileOverrides.index_expr)

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        short, long = (torch.arange(n, device=x.device) for n in (17, 70_000))
        table = short - short[:, None]
        return (
            *(reduced for axis in (0, 1) for reduced in (table.amax(axis), table.amin(axis), table.argmax(axis))),
            (table + 20).prod(0),
            long.sum(),
            (long * 3).sum() + long.amax() - (-long).amin(),
            (long // 2).view(70, 1000).sum(1),
            (long[:40] + 1).prod(),
            (long - 35_000).abs().argmin(),
            table.cumsum(0),
        )

    check(fn, torch.zeros(1))
