"""Which accesses go through a contiguous range of memory and a gather on chip."""

from __future__ import annotations

import pytest
import sympy
from torch.utils._sympy.functions import FloorDiv, ModularIndexing, PythonMod

from inductor_npu.codegen.analysis.strided_ranges import Part, load_range, load_range_of_part, part_of, store_range
from inductor_npu.codegen.index.affine import on_one_axis
from inductor_npu.codegen.index.bounds import Bounds
from inductor_npu.codegen.index.vector_text import CannotEmit, vector_text

X, Y, Z = sympy.symbols("x y z", integer=True, nonnegative=True)
ROWS = {Y: sympy.Integer(64), X: sympy.Integer(100)}


def lengths(**sizes: int) -> dict[sympy.Symbol, sympy.Expr]:
    return {{"x": X, "y": Y, "z": Z}[name]: sympy.Integer(size) for name, size in sizes.items()}


@pytest.mark.parametrize("address", [X + 100 * Y, X, 100 * Y + X + 7, sympy.Integer(3)], ids=str)
def test_neighbours_in_memory_need_no_gather(address: sympy.Expr):
    assert load_range(address, ROWS, 4) is None


@pytest.mark.parametrize("step", [2, 3, 8, -1, -2])
def test_elements_that_lie_apart_or_backwards_are_a_range_of_all_in_between(step: int):
    strided = load_range(step * X + 1000 * Y + 5, ROWS, 4)
    assert strided is not None and (strided.major, strided.step, strided.minor) == (X, step, frozenset())


def test_elements_that_lie_far_apart_are_read_one_by_one():
    assert load_range(129 * X, ROWS, 4) is None


def test_the_length_of_an_axis_that_is_read_in_blocks_may_be_dynamic():
    strided = load_range(3 * X, {X: sympy.Symbol("s0", integer=True, positive=True)}, 4)
    assert strided is not None and strided.major == X


@pytest.mark.parametrize(
    ("index", "reach"),
    [
        (ModularIndexing(X + 97, 1, 100), 100),  # roll
        (99 - sympy.Abs(97 - sympy.Abs(X - 2)), 98),  # reflection
        (sympy.Max(0, sympy.Min(95, X - 2)), 96),  # replication
        (FloorDiv(X, 2), 50),  # upsampling
    ],
    ids=["roll", "reflection", "replication", "upsampling"],
)
def test_an_index_that_is_no_linear_function_is_a_range_of_the_whole_row(index: sympy.Expr, reach: int):
    strided = load_range(index + 100 * Y, ROWS, 4)
    assert strided is not None and (strided.minor, strided.major, strided.main_axis) == ({X}, None, X)
    assert reach <= strided.rest <= 100
    assert strided.rest > max(int(strided.position.subs(X, i)) for i in range(100))
    assert min(int(strided.position.subs(X, i)) for i in range(100)) >= 0


def test_short_rows_in_another_order_are_a_range_of_many_rows():
    strided = load_range(FloorDiv(8 * X, 5) + 8 * Y, lengths(y=1000, x=5), 4)
    assert strided is not None
    assert (strided.minor, strided.rest, strided.major, strided.step, strided.main_axis) == ({X}, 7, Y, 8, Y)


@pytest.mark.parametrize("step", [-8, 29, 1000])
def test_short_rows_in_another_order_that_lie_backwards_or_apart_are_read_row_by_row(step: int):
    strided = load_range(FloorDiv(8 * X, 5) + step * Y, lengths(y=1000, x=5), 4)
    assert strided is not None and (strided.minor, strided.rest, strided.major) == ({X}, 7, None)


def test_a_part_of_short_rows_in_another_order_is_a_shorter_range():
    part = part_of(lengths(y=1000, x=5), Bounds({X: sympy.Integer(1)}, {X: sympy.Integer(4)}, exact=False))
    assert part is not None
    strided = load_range_of_part(FloorDiv(8 * X, 5) + 2 + 8 * Y, part, 4)
    assert strided is not None
    assert (strided.rest, strided.major, [int(strided.position.subs(X, i)) for i in range(3)]) == (4, Y, [0, 2, 3])


def test_rows_in_another_order_are_read_row_by_row():
    assert load_range(X + 100 * ModularIndexing(Y + 3, 1, 64), ROWS, 4) is None


def test_a_row_whose_length_is_not_known_is_no_range():
    assert load_range(ModularIndexing(X + 97, 1, 100), {X: sympy.Symbol("s0", integer=True)}, 4) is None


@pytest.mark.parametrize("range_of", [load_range, store_range])
def test_rows_shorter_than_a_burst_are_a_range_of_many_rows(range_of):
    strided = range_of(X + 3 * Y, lengths(y=1000, x=3), 4)
    assert strided is not None
    assert (strided.minor, strided.rest, strided.major, strided.step, strided.main_axis) == ({X}, 3, Y, 3, Y)


def test_what_is_a_burst_depends_on_the_bytes_of_an_item():
    rows = lengths(y=1000, x=12)
    assert load_range(X + 12 * Y, rows, 4) is None
    assert load_range(X + 12 * Y, rows, 2) is not None


def test_short_rows_of_short_rows_are_one_range():
    strided = store_range(X + 2 * Y + 4 * Z, lengths(z=1000, y=2, x=2), 4)
    assert strided is not None and (strided.minor, strided.rest, strided.major) == ({X, Y}, 4, Z)


@pytest.mark.parametrize("range_of", [load_range, store_range])
def test_all_of_a_tensor_shorter_than_a_burst_is_one_range(range_of):
    strided = range_of(X + 2 * Y, lengths(y=3, x=2), 4)
    assert strided is not None
    assert (strided.minor, strided.rest, strided.major, strided.step) == ({X}, 2, Y, 2)
    assert range_of(X, lengths(x=3), 4) is None


def test_a_load_may_skip_elements_between_short_rows_and_a_store_may_not():
    rows = lengths(y=1000, x=3)
    assert load_range(X + 4 * Y, rows, 4) is not None
    assert store_range(X + 4 * Y, rows, 4) is None


def within(sizes: dict[sympy.Symbol, sympy.Expr], **limits: tuple[int, int]) -> Part:
    """The part of axes of these sizes that is within the limits."""
    symbols = {"x": X, "y": Y, "z": Z}
    low = {symbols[name]: sympy.Integer(first) for name, (first, _) in limits.items()}
    high = {symbols[name]: sympy.Integer(end) for name, (_, end) in limits.items()}
    part = part_of(sizes, Bounds(low, high))
    assert part is not None
    return part


def test_a_row_of_which_a_condition_leaves_the_first_elements_out_is_a_range_of_the_rest():
    strided = load_range_of_part(X + 100 * Y - 3, within(ROWS, x=(3, 100)), 4)
    assert strided is not None and (strided.major, strided.step, strided.minor) == (X, 1, frozenset())


@pytest.mark.parametrize("limits", [(0, 60), (8, 100), (16, 60)])
def test_a_part_that_begins_with_a_block_of_the_unified_buffer_needs_no_gather(limits: tuple[int, int]):
    assert load_range_of_part(X + 100 * Y, within(ROWS, x=limits), 4) is None


def test_elements_that_lie_apart_are_a_range_of_those_that_a_condition_leaves():
    strided = load_range_of_part(2 * X + 200 * Y - 1, within(ROWS, x=(1, 100)), 4)
    assert strided is not None and (strided.major, strided.step, strided.lowest) == (X, 2, 0)


def test_places_within_short_rows_count_from_the_first_element_that_a_condition_leaves():
    strided = load_range_of_part(X - 1 + 5 * Y, within(lengths(y=1000, x=6), x=(1, 6)), 4)
    assert strided is not None and (strided.minor, strided.rest, strided.major, strided.step) == ({X}, 5, Y, 5)
    assert strided.position == X


def test_limits_beyond_an_axis_leave_all_of_it():
    part = within(ROWS, x=(-2, 150), y=(1, 63))
    assert (part.starts, part.ends) == ({Y: 1}, {Y: 63})
    assert (part.lengths[X], part.lengths[Y]) == (100, 62)


def test_a_part_of_an_axis_of_unknown_length_is_not_known():
    assert part_of({X: sympy.Symbol("s0", integer=True)}, Bounds({X: sympy.Integer(1)}, {})) is None
    assert part_of(ROWS, Bounds({X: sympy.Integer(100)}, {})) is None


def test_a_division_that_changes_nothing_within_bounds_is_left_out():
    rest = Bounds({X: sympy.Integer(1)}, {})
    lengths_of_17 = {X: sympy.Integer(17)}
    index = ModularIndexing(X - 1, 1, 16) + 16 * Y
    assert rest.without_divisions(index, {**lengths_of_17, Y: sympy.Integer(64)}) == X - 1 + 16 * Y
    assert rest.without_divisions(FloorDiv(X - 1, 16), lengths_of_17) == 0
    assert rest.without_divisions(index, {X: sympy.Integer(18)}) == index
    assert Bounds({}, {}).without_divisions(index, lengths_of_17) == index


@pytest.mark.parametrize(
    ("difference", "same"),
    [
        (X + 8 * Y - 16, Y - 2),
        (15 - X - 8 * Y, 1 - Y),
        (X + 8 * Y - 12, X + 8 * Y - 12),  # within a row
        (X + 4 * Y - 8, X + 4 * Y - 8),  # rows overlap
        (X - 3, X - 3),
    ],
    ids=str,
)
def test_a_condition_that_only_rows_decide_is_one_on_rows(difference: sympy.Expr, same: sympy.Expr):
    sizes = lengths(y=4, x=8)
    assert on_one_axis(difference, sizes) == same
    for y in range(4):
        for x in range(8):
            at = {X: x, Y: y}
            assert (difference.subs(at) >= 0) == (same.subs(at) >= 0)


def test_the_text_of_a_small_index_divides_no_vector():
    index = 99 - sympy.Abs(FloorDiv(X, 3) - ModularIndexing(X, 2, 5)) + sympy.Max(X, 2)
    text = vector_text(index, {X: "x"}, {X: 128})
    assert "//" not in text and "%" not in text
    values = {"device_functions": _Functions, "tl": _Functions}
    for x in range(128):
        assert eval(text, {**values, "x": x}) == int(index.subs(X, x))


@pytest.mark.parametrize("index", [FloorDiv(X - 50, 7), PythonMod(X - 50, 7), PythonMod(3 * X - 49, 7)], ids=str)
def test_what_may_be_negative_is_divided_as_whole_numbers_are(index: sympy.Expr):
    text = vector_text(index, {X: "x"}, {X: 128})
    for x in range(128):
        assert eval(text, {"device_functions": _Functions, "x": x}) == int(index.subs(X, x))


def test_an_index_that_may_be_large_is_not_divided():
    with pytest.raises(CannotEmit):
        vector_text(ModularIndexing(X * 2**24, 1, 100), {X: "x"}, {X: 128})


class _Functions:
    small_quotient = staticmethod(lambda x, divisor: x // divisor)
    small_remainder = staticmethod(lambda x, divisor: x % divisor)
    abs = staticmethod(abs)
    maximum = staticmethod(max)
    minimum = staticmethod(min)


def test_short_rows_that_lie_far_apart_are_read_one_by_one():
    strided = load_range(X + 25 * Y + 5, {Y: sympy.Integer(5), X: sympy.Integer(5)}, 4)
    assert strided is not None and (strided.minor, strided.major, strided.rest) == ({X}, None, 5)
