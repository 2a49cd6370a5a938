"""Triton visits the body of a loop once where it hands nothing to the next round, and makes the same TTIR of it."""

from __future__ import annotations

import pytest

code_generator = pytest.importorskip("triton.compiler.code_generator")

from tests.triton_features import ttir  # noqa: E402

CodeGenerator = code_generator.CodeGenerator
if not hasattr(CodeGenerator, "_find_carries"):
    pytest.skip("this Triton's visit of a loop is one function", allow_module_level=True)

SIGNATURE = {"p": "*fp32", "n": "i32"}
HEAD = """
@triton.jit
def twice(x):
    return x + x

@triton.jit
def kernel(p, n):
    i = tl.arange(0, 16)
    total = tl.zeros([16], tl.float32)
    count = 0
"""
LOOPS = {
    "nothing handed on": """
    for a in range(0, n):
        for b in range(0, n):
            x = tl.load(p + a * n + b + i)
            y = twice(x)
            tl.store(p + a * n + b + i, y)
""",
    "a sum inside": """
    for a in range(0, n):
        inner = tl.zeros([16], tl.float32)
        for b in range(0, n):
            inner += tl.load(p + a * n + b + i)
        tl.store(p + a + i, inner)
""",
    "a sum over both": """
    for a in range(0, n):
        for b in range(0, n):
            x = tl.load(p + a * n + b + i)
            total, count = total + x, count + 1
    tl.store(p + i, total + count)
""",
    "a name used by two loops": """
    for a in range(0, n):
        x = tl.load(p + a + i)
        tl.store(p + a + i, x)
    for a in range(0, n):
        x = tl.load(p + a + i) * 2.0
        tl.store(p + a + i, x)
""",
    "set to what it was": """
    for a in range(0, n):
        total = total
        tl.store(p + a + i, total)
""",
    "a branch that assigns": """
    for a in range(0, n):
        if a > 2:
            count = a
        tl.store(p + a, 1.0)
    tl.store(p + i, total + count)
""",
    "a while loop": """
    while count < n:
        for b in range(0, n):
            tl.store(p + b + i, twice(total))
        count += 1
""",
}


@pytest.mark.parametrize("loops", LOOPS)
def test_loops_are_the_same_ttir_as_when_visited_twice(loops: str, monkeypatch: pytest.MonkeyPatch) -> None:
    once = ttir(HEAD + LOOPS[loops], SIGNATURE)
    monkeypatch.setattr(CodeGenerator, "_find_carries", CodeGenerator._find_carries.__wrapped__)
    assert ttir(HEAD + LOOPS[loops], SIGNATURE) == once


def test_a_nest_that_hands_nothing_on_is_visited_once(monkeypatch: pytest.MonkeyPatch) -> None:
    visit, visited = CodeGenerator.visit_Assign, []
    monkeypatch.setattr(CodeGenerator, "visit_Assign", lambda self, node: (visited.append(node), visit(self, node))[1])
    ttir(HEAD + LOOPS["nothing handed on"], SIGNATURE)
    assert len(visited) == len(set(map(id, visited)))
