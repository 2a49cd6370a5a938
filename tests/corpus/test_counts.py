"""Kernels that we make, against those of Inductor's own Triton backend."""

from __future__ import annotations

import pytest

from corpus.counts import Count, count, more
from corpus.programs import hand_written

EVERY = 40


@pytest.mark.slow
def test_two_graphs_of_one_program_are_counted_with_both() -> None:
    """Forward and backward of a softmax: a kernel each; the program runs with ours."""
    assert count("softmax/softmax 128") == Count("softmax/softmax 128", stock=2, ours=2)


@pytest.mark.slow
def test_a_graph_with_tensors_of_the_cpu_too_is_counted() -> None:
    """An optimizer's step: stock Inductor makes one kernel for all parameters; its counts of steps are on the CPU."""
    found = count("optimizer/adamw")
    assert found.stock == 1 and found.ours >= 1 and not found.error


@pytest.mark.slow
def test_we_make_no_more_kernels_than_stock_inductor_on_a_fixed_sample() -> None:
    counts = [count(program.name) for program in hand_written()[::EVERY]]
    assert all(one.stock or _is_of_the_library(one.program) for one in counts)
    assert not any(one.error for one in counts)
    assert more(counts) == []


def _is_of_the_library(program: str) -> bool:
    """Whether the program may be nothing but calls of the library."""
    return program.startswith(("product/", "attention/", "convolution/"))


def test_what_ours_has_more_of_comes_first() -> None:
    same, one, three = Count("a", 2, 2), Count("b", 1, 2), Count("c", 1, 4)
    assert more([same, one, three]) == [three, one]
