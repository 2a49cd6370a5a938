"""The corpus' table: what counts as worse, and that it survives being written."""

from __future__ import annotations

import pytest

from corpus import table
from corpus.programs import hand_written
from corpus.table import FAILED, OMITTED, Line, with_known_runs, worse
from inductor_npu.ascend.hivm import Verdict

VECTOR, CUBE, MIXED, ELEMENT, SCALAR, REFUSED, WRONG = (verdict.value for verdict in Verdict)


def lines(program: str, *verdicts: str) -> list[Line]:
    return [Line(program, number, "relu", verdict) for number, verdict in enumerate(verdicts)]


def test_the_same_table_is_not_worse() -> None:
    before = [*lines("softmax", VECTOR, SCALAR), *lines("cat", REFUSED)]
    assert worse(before, before) == []


def test_better_verdicts_are_not_worse() -> None:
    assert worse(lines("softmax", SCALAR, REFUSED), lines("softmax", VECTOR, SCALAR)) == []


@pytest.mark.parametrize(
    ("before", "after"),
    [(MIXED, ELEMENT), (ELEMENT, SCALAR), (SCALAR, REFUSED), (REFUSED, WRONG), (WRONG, OMITTED), (OMITTED, FAILED)],
)
def test_each_step_down_is_worse(before: str, after: str) -> None:
    (words,) = worse(lines("softmax", VECTOR, before), lines("softmax", VECTOR, after))
    assert words.startswith("softmax: was ") and f"1 {after}" in words


def test_vector_code_and_the_cubes_are_as_good_as_each_other() -> None:
    assert worse(lines("softmax", VECTOR, VECTOR), lines("softmax", MIXED, CUBE, MIXED)) == []


def test_more_good_kernels_are_not_worse_but_one_more_bad_one_is() -> None:
    before = lines("softmax", VECTOR, SCALAR)
    assert worse(before, lines("softmax", VECTOR, VECTOR, VECTOR, SCALAR)) == []
    assert worse(before, lines("softmax", VECTOR, SCALAR, SCALAR)) != []


def test_a_good_kernel_does_not_make_up_for_a_bad_one() -> None:
    assert worse(lines("softmax", SCALAR, SCALAR), lines("softmax", VECTOR, REFUSED)) != []


def test_a_result_that_became_wrong_is_worse() -> None:
    before, after = Line("sum", 1, "", VECTOR, run="agrees"), Line("sum", 1, "", VECTOR, run="differs: out[0] is 1.0")
    assert worse([after], [before]) == worse([after], [after]) == []
    assert worse([before], [after]) == ["sum: 0 kernels were wrong, 1 are"]


def test_a_form_that_is_wrong_on_ascend_is_worse() -> None:
    before, after = Line("sum", 1, "", VECTOR), Line("sum", 1, "", VECTOR, lint="N104 reversed mask (line 3)")
    assert worse([before], [after]) == ["sum: 0 kernels were against the lint, 1 are"]


def test_a_kernel_that_was_not_run_has_the_outcome_of_the_same_kernel_in_the_accepted_table() -> None:
    accepted = [Line("a", 1, "", VECTOR, key="11", run="agrees"), Line("a", 2, "", VECTOR, key="22")]
    new = [Line("b", 1, "", VECTOR, key="11"), Line("b", 2, "", VECTOR, key="22"), Line("b", 3, "", VECTOR, key="33")]
    assert [line.run for line in with_known_runs(new, accepted)] == ["agrees", "", ""]
    run = [Line("b", 1, "", VECTOR, key="11", run="cannot execute")]
    assert with_known_runs(run, accepted) == run


def test_programs_of_one_table_only_are_not_compared() -> None:
    assert worse(lines("softmax", VECTOR), lines("cat", REFUSED)) == []


def test_a_table_reads_back_as_it_was_written(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "FOLDER", tmp_path)
    written = [
        Line("norm/layer norm", 0, "native_layer_norm", VECTOR, unified_buffer="12%", cycles="100", bound="mte2"),
        Line("scan/sort", 1, "sort", REFUSED, why='front end: "no", \\ it said'),
    ]
    table.write("Ascend910B3", written)
    assert table.read("Ascend910B3") == written


def test_the_names_of_programs_are_distinct() -> None:
    names = [program.name for program in hand_written()]
    assert len(names) == len(set(names)) > 200
