"""Every access pattern through Ascend's compiler: the class that the rules say.

Among them are the cases that a count of memref.load and memref.store gets wrong: single reads (S1), which it calls
scalar, and element DMA (EL) and hidden scalar loops (HL), which it calls vector.
"""

from __future__ import annotations

import pytest

from inductor_npu.ascend.compilation import Compilation, compile_kernels
from inductor_npu.ascend.hivm import Verdict, analyse
from inductor_npu.target import get_target
from tests.ascend.hivm.cases import CASES, I32, Case

pytestmark = pytest.mark.ascend


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compilation]:
    results = compile_kernels([case.source for case in CASES.values()], "Ascend910B3")
    return dict(zip(CASES, results))


@pytest.mark.parametrize("name", CASES)
def test_class(name: str, compiled: dict[str, Compilation]):
    compilation, case = compiled[name], CASES[name]
    assert compilation.hivm is not None, compilation.message
    found = analyse(compilation.hivm, get_target("Ascend910B3"))
    assert found.verdict is case.verdict, found.findings
    assert {finding.kind for finding in found.findings} == case.findings
    assert not any("not known (" in text or "is not known: taken to be vector" in text for text in found.assumptions)


def test_a_loop_that_the_compiler_unrolls_is_one():
    """Inline assembly becomes one piece of straight code for each element."""
    case = Case("inline_assembly", {"x": I32, "y": I32}, {"B": 256}, Verdict.SCALAR)
    (compilation,) = compile_kernels([case.source], "Ascend910B3")
    found = analyse(compilation.hivm, get_target("Ascend910B3"))
    assert found.verdict is Verdict.SCALAR
    assert {finding.elements for finding in found.findings if finding.kind == "SL"} == {256}


def test_the_crude_test_is_wrong_about_some(compiled: dict[str, Compilation]):
    """What the classes are for: counting loads and stores of single elements misjudges these."""
    crude = {
        name: "memref.load" in str(entry.hivm) or "memref.store" in str(entry.hivm) for name, entry in compiled.items()
    }
    called_scalar = {name for name, case in CASES.items() if crude[name] and case.findings == {"S1"}}
    called_vector = {name for name, case in CASES.items() if not crude[name] and case.findings & {"EL", "HL"}}
    assert len(called_scalar) >= 5
    assert len(called_vector) >= 10
