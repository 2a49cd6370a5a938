"""Which statements of a kernel are printed."""

from __future__ import annotations

import pytest
from torch._inductor.codegen.common import IndentedBuffer
from torch._inductor.utils import DelayReplaceLine

from inductor_npu.codegen.emit.statements import Statements


def printed(*lines: str) -> list[str]:
    """The lines that are printed of a kernel with these; a line's indentation is that of its loop."""
    body = Statements()
    for line in lines:
        text = line.lstrip()
        with body.indent((len(line) - len(text)) // 4):
            body.writeline(text)
    body.keep_needed()
    return body.getvalue().splitlines()


def test_values_that_reach_no_store_are_not_printed_nor_what_only_they_read():
    store = ["c = tl.load(q)", "tl.store(r, c, None)"]
    assert printed("a = tl.load(p)", "b = a + 1", store[0], "d = libdevice.exp(b)", store[1]) == store


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
def test_what_does_more_than_give_a_value_is_printed_with_what_it_reads(effect: str):
    lines = ["a = tl.load(p)", effect]
    assert printed(*lines) == lines


def test_a_loop_that_only_fills_an_unused_accumulator_is_not_printed():
    head = ["for r0_offset in range(0, r0_numel, R0_BLOCK):", "    r0 = r0_offset + tl.arange(0, R0_BLOCK)"]
    unused = ["acc = tl.full([R0_BLOCK], 0, tl.float32)", *head, "    a = tl.load(p + r0)", "    acc = acc + a"]
    used = [*head, "    tl.store(q + r0, tl.load(p + r0))"]
    assert printed(*unused, *used) == used


def test_a_statement_of_several_lines_is_printed_whole_or_not_at_all():
    body = Statements()
    for name in "ab":
        body.writeline(f"{name} = tl.load(\n    p,\n    None)")
    body.writeline("tl.store(r, b)")
    body.keep_needed()
    assert body.getvalue() == "b = tl.load(\n    p,\n    None)\ntl.store(r, b)\n"


def test_all_assignments_of_an_accumulator_are_printed_when_it_is_read():
    lines = ["acc = 0", "for i in range(0, n):", "    acc = acc + tl.load(p + i)", "tl.store(q, acc)"]
    assert printed(*lines) == lines


def test_a_value_in_a_loop_that_is_read_behind_it_keeps_the_loop():
    lines = ["for i in range(0, n):", "    for j in range(0, m):", "        a = tl.load(p + i)", "tl.store(q, a)"]
    assert printed(*lines) == lines


def test_several_names_of_one_statement_are_printed_when_one_is_read():
    lines = ["a, b = device_functions.sort_with_index(c, 3, 0, False)", "tl.store(q, b)"]
    assert printed("d, e = device_functions.frexp(c)", *lines) == lines


def test_statements_keep_their_records_when_they_move_to_another_buffer():
    inner = Statements()
    inner.writeline("a = tl.load(p)")
    inner.writeline("b = tl.load(p)")
    body, plain = Statements(), IndentedBuffer()
    plain.writeline("tl.store(q, b)")
    with body.indent():
        body.splice(inner)
        body.splice(plain)
    body.keep_needed()
    assert body.getvalue() == "    b = tl.load(p)\n    tl.store(q, b)\n"


def test_a_line_that_is_still_open_is_completed_when_it_is_printed():
    body, value = Statements(), ["0.0"]
    body.writeline(DelayReplaceLine("<OTHER>", lambda: value[0], "a = tl.load(p, m, other=<OTHER>)"))
    body.writeline("tl.store(q, a)")
    value[0] = "1.0"
    body.keep_needed()
    assert body.getvalue().splitlines()[0] == "a = tl.load(p, m, other=1.0)"
