"""What is taken out of a kernel's text, and what must stay."""

from __future__ import annotations

import pytest
import torch

from inductor_npu.codegen.emit.dead_code import with_literals, without_dead_code, without_unused

FLOATS = {f"tmp{i}": torch.float32 for i in range(10)}


def test_values_that_reach_no_store_are_removed_with_what_only_they_use():
    text = "a = tl.load(p)\nb = a + 1\nc = tl.load(q)\nd = libdevice.exp(b)\ntl.store(r, c, None)\n"
    assert without_unused(text) == "c = tl.load(q)\ntl.store(r, c, None)\n"


@pytest.mark.parametrize(
    "effect",
    [
        "tl.store(p, a, None)",
        "old = tl.atomic_add(p, a, None, sem='relaxed')",
        "tl.device_assert(a < 3, 'index out of bounds')",
        "b = triton_helpers.device_assert_then(a < 3, 'index out of bounds', a)",
        "b = helper(a)",
        "b = tl.inline_asm_elementwise('...', '=r', [a], dtype=tl.int32, is_pure=True, pack=1)",
    ],
)
def test_what_does_more_than_give_a_value_stays(effect: str):
    text = f"a = tl.load(p)\n{effect}\n"
    assert without_unused(text) == text


def test_a_loop_that_only_fills_an_unused_accumulator_disappears():
    text = (
        "acc = tl.full([R0_BLOCK], 0, tl.float32)\n"
        "for r0_offset in range(0, r0_numel, R0_BLOCK):\n"
        "    r0 = r0_offset + tl.arange(0, R0_BLOCK)\n"
        "    a = tl.load(p + r0)\n"
        "    acc = acc + a\n"
        "for r0_offset in range(0, r0_numel, R0_BLOCK):\n"
        "    r0 = r0_offset + tl.arange(0, R0_BLOCK)\n"
        "    tl.store(q + r0, tl.load(p + r0))\n"
    )
    assert without_unused(text) == text[text.rindex("for ") :]


def test_both_assignments_of_an_accumulator_stay_when_it_is_used():
    text = "acc = 0\nfor i in range(0, n):\n    acc = acc + tl.load(p + i)\ntl.store(q, acc)\n"
    assert without_unused(text) == text


def test_a_statement_of_several_lines_is_removed_or_kept_whole():
    text = "a = tl.load(\n    p,\n    None)\nb = tl.load(\n    q,\n    None)\ntl.store(r, b)\n"
    assert without_unused(text) == "b = tl.load(\n    q,\n    None)\ntl.store(r, b)\n"


def test_a_number_is_written_where_it_is_used():
    text = "tmp1 = tl.full([], 2.5, tl.float32)\ntmp2 = tmp0[:, None] * tmp1\ntl.store(p, tmp2)\n"
    assert without_dead_code(text, FLOATS.get) == "tmp2 = tmp0[:, None] * 2.5\ntl.store(p, tmp2)\n"


def test_a_whole_number_turned_into_float32_is_a_number_too():
    text = "tmp1 = (tl.full([], 768, tl.int32)).to(tl.float32)\ntmp2 = tmp0 / tmp1\ntl.store(p, tmp2)\n"
    assert without_dead_code(text, FLOATS.get) == "tmp2 = tmp0 / 768.0\ntl.store(p, tmp2)\n"


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("tmp1 = tl.full([], 1e-40, tl.float32)\ntmp2 = tmp0 * tmp1\n", id="subnormal: Triton takes fp64"),
        pytest.param("tmp1 = tl.full([], -0.0, tl.float32)\ntmp2 = tmp0 + tmp1\n", id="Triton takes -0.0 for 0"),
        pytest.param('tmp1 = tl.full([], float("inf"), tl.float32)\ntmp2 = tmp0 * tmp1\n', id="not a literal"),
        pytest.param("tmp1 = tl.full([], 0.1, tl.float64)\ntmp2 = tmp0 * tmp1\n", id="float64 beside float32"),
        pytest.param("tmp1 = tl.full([], 2.5, tl.float32)\ntmp2 = other * tmp1\n", id="a value of unknown type"),
        pytest.param("tmp1 = tl.full([], 2.5, tl.float32)\ntmp2 = libdevice.exp(tmp1)\n", id="an argument"),
        pytest.param("tmp1 = tl.full([], 2.5, tl.float32)\ntmp1 = tmp0\ntmp2 = tmp0 * tmp1\n", id="assigned twice"),
        pytest.param("tmp1 = tl.full([], 2, tl.int32)\ntmp2 = tmp0 * tmp1\n", id="int32 beside float32"),
        pytest.param("tmp1 = tl.full([X], 2.5, tl.float32)\ntmp2 = tmp0 * tmp1\n", id="a vector"),
    ],
)
def test_a_number_stays_a_value_where_a_literal_might_mean_something_else(text: str):
    assert with_literals(text, FLOATS.get) == text
