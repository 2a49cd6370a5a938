"""The embedded NPU's check of the Unified Buffer, held against Ascend's compiler."""

from __future__ import annotations

import pytest

from corpus.budget import Kernel, Trial, agreement, block_names, compare, kernels_of, scaled
from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.providers import DEFAULT_TARGET

# Of each family of hand-written programs; operators are left out, because they move with torch's database.
SAMPLE = (
    "activation/gelu erf",
    "broadcast/scale column",
    "dtype/half chain",
    "indexed/embedding odd width",
    "norm/layer norm 768",
    "permute/transpose",
    "softmax/softmax 777",
    "statistic/sum columns",
)


def source(**blocks: int) -> KernelSource:
    return KernelSource("k", "", {"p": "*fp32"}, {**blocks, "EPSILON": 1.0})


def test_blocks_are_doubled_and_halved_in_turn() -> None:
    given = source(YBLOCK=32, XBLOCK=64)
    assert block_names(given) == ["XBLOCK", "YBLOCK"]
    larger, smaller = scaled(given, 3), scaled(given, -2)
    assert larger is not None and smaller is not None
    assert larger.constants == {"YBLOCK": 64, "XBLOCK": 256, "EPSILON": 1.0}
    assert smaller.constants == {"YBLOCK": 16, "XBLOCK": 32, "EPSILON": 1.0}


def test_no_block_is_smaller_than_one() -> None:
    assert scaled(source(XBLOCK=2, R0_BLOCK=1), -1) == source(XBLOCK=1, R0_BLOCK=1)
    assert scaled(source(XBLOCK=2, R0_BLOCK=1), -2) is None


def test_agreement_counts_trials() -> None:
    both, one = Trial("", 1, 1, True, True), Trial("", 1, 3, True, False)
    assert agreement([Kernel("a", 0, "", "", (both, both), ()), Kernel("b", 0, "", "", (both, one), ())]) == 0.75


@pytest.mark.ascend
@pytest.mark.slow
def test_both_checks_agree_on_a_fixed_sample() -> None:
    kernels = compare(kernels_of(SAMPLE, DEFAULT_TARGET, jobs=2, every=1), DEFAULT_TARGET, jobs=2)
    trials = [trial for kernel in kernels for trial in kernel.trials]
    assert len(trials) >= 40
    assert {trial.fits_theirs for trial in trials} == {True, False}
    assert agreement(kernels) >= 0.95, [kernel for kernel in kernels if agreement([kernel]) != 1]
