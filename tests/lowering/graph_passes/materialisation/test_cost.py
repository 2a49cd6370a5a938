"""The decision follows bytes: what a value is computed of, how many kernels take it, what they read in any case."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._inductor.virtualized import V
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

from inductor_npu.lowering.graph_passes.materialisation import materialise
from inductor_npu.lowering.graph_passes.materialisation.stored import stored

SIZE = 64
Tensor = torch.Tensor


def stored_values(function: Callable[..., object], *shapes: tuple[int, ...] | Tensor) -> list[str]:
    """The operators whose results the pass has stored in the graph of `function`, called with float32 tensors of these
    shapes, or with tensors like these.
    """
    with FakeTensorMode() as mode:
        kinds = [(each, torch.float32) if isinstance(each, tuple) else (each.shape, each.dtype) for each in shapes]
        inputs = [torch.empty(shape, dtype=dtype, device="npu") for shape, dtype in kinds]
        graph = make_fx(function)(*inputs).graph
    with V.set_fake_mode(mode):
        materialise.apply(graph)
    graph.lint()
    return [node.args[0].target.overloadpacket.__name__ for node in graph.nodes if node.target is stored]


MATRIX = (SIZE, SIZE)


def after(x: Tensor, weight: Tensor) -> Tensor:
    """Something that a later kernel takes: a product that needs all of `x`."""
    return x.sin() @ weight


def test_many_large_operands_are_read_once() -> None:
    def several(a: Tensor, b: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        x = a * b + c
        y = after(x, weight)
        return y, y * x

    assert stored_values(several, MATRIX, MATRIX, MATRIX, MATRIX) == ["add"]


def test_what_is_computed_of_one_tensor_as_large_is_computed_again() -> None:
    def one(a: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        x = a.exp()
        y = after(x, weight)
        return y, y * x

    assert stored_values(one, MATRIX, MATRIX) == []


def test_what_is_computed_of_small_operands_is_computed_again_by_however_many() -> None:
    """A sum of a row and a column, as positions are: two lines to read instead of a matrix."""

    def small(row: Tensor, column: Tensor, weight: Tensor) -> Tensor:
        x = row * column + row
        for _ in range(5):
            weight = after(x * weight, weight) * x
        return weight

    assert stored_values(small, (1, SIZE), (SIZE, 1), MATRIX) == []


def test_the_narrowest_value_is_what_is_stored() -> None:
    """Of a mask of bytes, a quarter of what would be written is read; of wide integers it is stored as a mask."""

    def masked(a: Tensor, number: Tensor, weight: Tensor) -> Tensor:
        x = torch.where(a > 0, number, -number)
        for _ in range(5):
            weight = after(x * weight, weight) * x
        return weight

    narrow, wide = (torch.empty(MATRIX, dtype=dtype) for dtype in (torch.int8, torch.int64))
    assert stored_values(masked, narrow, (), MATRIX) == []
    assert stored_values(masked, wide, (), MATRIX) == ["gt"]


def test_what_one_kernel_takes_stays_on_chip() -> None:
    def softmax(a: Tensor, b: Tensor, c: Tensor) -> Tensor:
        return torch.softmax(a * b + c, -1)

    assert stored_values(softmax, MATRIX, MATRIX, MATRIX) == []


def test_more_kernels_make_storing_cheaper() -> None:
    """Two operands as large as the value: the same bytes for two kernels, fewer from three on; also of half types."""

    def layers(count: int) -> Callable[..., Tensor]:
        def run(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
            x = torch.where(a > 0, b, a)
            y = weight
            for _ in range(count):
                y = after(y * x, weight)
            return y

        return run

    halves = torch.empty(MATRIX, dtype=torch.float16)
    assert stored_values(layers(1), MATRIX, MATRIX, MATRIX) == []
    assert stored_values(layers(3), MATRIX, MATRIX, MATRIX) == ["where"]
    assert stored_values(layers(3), halves, halves, halves) == ["where"]


def test_what_a_kernel_reads_in_any_case_is_not_saved() -> None:
    """The second kernel takes `a`, `b` and `c` for themselves: to read the sum, too, would be more."""

    def anyway(a: Tensor, b: Tensor, c: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        x = a * b + c
        y = after(x, weight)
        return y, y * x + y * a * b.sin() + c

    assert stored_values(anyway, MATRIX, MATRIX, MATRIX, MATRIX) == []


def test_a_share_of_a_value_counts_as_such() -> None:
    """Each later kernel takes an eighth: together less than the value that would be written for them."""

    def shares(a: Tensor, b: Tensor, c: Tensor, weight: Tensor) -> Tensor:
        x = a * b + c
        y = after(x, weight)
        for part in x.split(SIZE // 8)[:2]:
            y = y @ weight * part[:1]
        return y

    assert stored_values(shares, MATRIX, MATRIX, MATRIX, MATRIX) == []


def test_what_the_library_takes_as_a_view_is_stored_in_its_own_order() -> None:
    """It costs nothing: Inductor would store the view, in a loop over the axes of the view."""

    def taken(a: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
        return a.cos(), a.view(-1).sin().view(MATRIX) @ weight

    assert stored_values(taken, MATRIX, MATRIX) == ["sin"]


def test_what_is_stored_later_ends_what_an_earlier_value_is_computed_for() -> None:
    """A stream of sums: each is taken by the norm beside it and by the next sum, however many layers there are. So
    the first one, of which half as much is read again as it has bytes, is not stored.
    """

    def stream(a: Tensor, b: Tensor, weight: Tensor) -> Tensor:
        x = a + b
        for _ in range(4):
            x = x + (x - x.mean(-1, keepdim=True)) @ weight
        return x

    halves = torch.empty((SIZE, SIZE), dtype=torch.float16)
    assert len(stored_values(stream, MATRIX, halves, MATRIX)) == 3
    assert len(stored_values(stream, MATRIX, MATRIX, MATRIX)) == 4


def test_sums_of_rows_and_of_columns_are_two_kernels() -> None:
    def sums(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        x = a * b + c
        return x.sum(0), x.sum(1)

    assert stored_values(sums, MATRIX, MATRIX, MATRIX) == ["add"]
