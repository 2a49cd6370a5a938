"""Rows of which an end is too short to be copied by itself: it is written together with what lies beside it, first."""

from __future__ import annotations

import pytest

from inductor_npu.codegen.analysis.short_row_ends import RowPart, row_parts


def written(spans: list[RowPart], length: int) -> list[RowPart]:
    """Which span wrote each element of the row last."""
    row: list[RowPart] = [spans[0]] * length
    for span in spans:
        start, end = span.wide
        row[start:end] = [span] * (end - start)
    return row


@pytest.mark.parametrize(
    ("cuts", "length"),
    [([1], 20), ([19], 20), ([1, 19], 20), ([2, 16], 19), ([5, 6], 100), ([3, 5], 30), ([25, 28], 30), ([8, 16], 24)],
)
def test_each_element_is_written_last_by_its_own_span(cuts: list[int], length: int):
    spans = row_parts(cuts, length, shortest=8)
    for index, span in enumerate(written(spans, length)):
        assert span.start <= index < span.end
    assert all(span.wide[0] >= 0 and span.wide[1] <= length for span in spans)
    assert all(span.wide[1] - span.wide[0] >= 8 for span in spans)


def test_what_is_long_enough_is_written_as_it_is():
    assert row_parts([10], 30, shortest=8) == [RowPart(0, 10, (0, 10)), RowPart(10, 30, (10, 30))]


def test_short_spans_come_first():
    assert [span.is_short for span in row_parts([2, 16], 19, shortest=8)] == [True, True, False]


@pytest.mark.parametrize(("cuts", "length"), [([1], 4), ([2, 4, 6], 8), ([1], 1 << 20)])
def test_rows_that_cannot_be_written_so(cuts: list[int], length: int):
    assert row_parts(cuts, length, shortest=8) == []
