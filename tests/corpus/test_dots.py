"""The embedded NPU's check of on-chip memory, held against Ascend's compiler on kernels with dots."""

from __future__ import annotations

from dataclasses import replace

import pytest

from corpus.dots import attention, matmul
from corpus.dots.agreement import Trial, agreement, compare
from inductor_npu.providers import DEFAULT_TARGET

FORMS = {form.name: form for form in (*matmul.forms(), *attention.forms())}
# Of each group, with blocks on both sides of a limit.
SAMPLE = {
    "plain fp16": [(128, 256, 256), (128, 256, 704), (129, 256, 64)],
    "bias in the first step": [(64, 512, 448), (128, 128, 1024)],
    "gelu erf": [(128, 192, 64), (128, 256, 64), (127, 128, 64)],
    "column sum": [(127, 256, 64)],
    "swiglu": [(128, 128, 64), (128, 192, 64)],
    "int8 weights": [(160, 192, 256), (64, 512, 448)],
    "forward plain 64": [(128, 256, 64), (256, 256, 64)],
    "forward causal 128": [(64, 256, 128), (128, 192, 128)],
    "keys and values 64": [(128, 128, 64), (64, 256, 64)],
}


def test_forms_have_names_of_their_own() -> None:
    assert len(FORMS) == len([*matmul.forms(), *attention.forms()])


def test_agreement_counts_trials() -> None:
    fits = Trial("g", "a", (1,), {"ub": 1, "cbuf": 1, "cc": 1}, (), "", 0)
    refused = replace(fits, refused_for="ub", required=9)
    assert agreement([fits, replace(refused, too_small=("cc",)), refused]) == pytest.approx(2 / 3)
    assert refused.words == "1: ours fits, theirs ub 9"


@pytest.mark.ascend
def test_both_checks_agree_on_a_fixed_sample() -> None:
    forms = [replace(FORMS[name], blocks=blocks) for name, blocks in SAMPLE.items()]
    trials, others = compare(forms, DEFAULT_TARGET, jobs=2)
    assert not others
    assert {trial.refused_for for trial in trials} == {"", "ub", "cbuf", "cc"}
    assert [trial.words for trial in trials if not trial.agrees] == []
