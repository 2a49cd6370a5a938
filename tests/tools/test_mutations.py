"""Code made wrong in one place: what is changed, what is left, and what is drawn again for the same seed."""

from __future__ import annotations

import ast
import random

from tools.mutations import Covering, draw, mutations_of

SOURCE = '''"""A text with 1 < 2."""


def fits(size: int, limit: int) -> bool:
    # é is two bytes
    name = "é"; ok = size + 1 <= limit and not (
        size == 3
    )
    return ok and bool(f"{name + name}")
'''


def mutated(line: int, seed: int = 0) -> list[str]:
    return [each.source for each in mutations_of("file.py", SOURCE, {line}, random.Random(seed))]


def test_each_operator_and_number_of_a_line_is_changed_once() -> None:
    changes = {each.what.partition(" -> ")[0] for each in mutations_of("file.py", SOURCE, {6, 7}, random.Random(0))}
    assert {"`size + 1`", "`1`", "`size + 1 <= limit`", "`size == 3`", "`3`"} <= changes


def test_everything_else_stays_where_it_was() -> None:
    for source in [*mutated(6), *mutated(7)]:
        ast.parse(source)
        assert source.count("\n") == SOURCE.count("\n")
        assert source.splitlines()[8] == SOURCE.splitlines()[8]
        assert "# é is two bytes" in source


def test_texts_and_what_stands_in_them_are_left() -> None:
    assert mutated(1) == []
    assert [source for source in mutated(9) if "name - name" in source] == []


def test_the_same_seed_draws_the_same_mutations_of_lines_that_tests_run() -> None:
    tests = Covering({"tools/mutations.py": {number: ["a test"] for number in range(60, 110)}}, {})
    first, again, other = draw(tests, 5, 1), draw(tests, 5, 1), draw(tests, 5, 2)
    assert [str(each) for each in first] == [str(each) for each in again] != [str(each) for each in other]
    assert len({str(each) for each in first}) == 5
    assert all(60 <= each.line < 110 and tests.of(each) == ["a test"] for each in first)
