"""Each rule finds its kernel and leaves the other one alone; and Ascend's compiler does what the rule says."""

from __future__ import annotations

import subprocess
import textwrap
from pathlib import Path

import pytest

from inductor_npu.ascend.compilation import Compilation, compile_kernels
from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.ascend.hivm import Verdict, analyse
from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.ascend.lint import RULES, LintedKernel, Severity, lint_file, lint_ttir
from inductor_npu.ascend.lint.libdevice import ASCEND
from inductor_npu.ascend.lint.rules import as_markdown
from inductor_npu.target import get_target
from tests.ascend.hivm.cases import CASES
from tests.ascend.lint.cases import F32, FLAT, I32, ONLY_ASCEND, PAIRS, ROWS, XY, source
from tests.ascend.lint.product_cases import CONVERTED_FOR_FEW_ROWS, ONLY_ASCENDS_PRODUCTS, PRODUCT_PAIRS

CHIP = "Ascend910B3"
PAIRS = {**PAIRS, **PRODUCT_PAIRS}
EVERY = {**PAIRS, **ONLY_ASCEND, **ONLY_ASCENDS_PRODUCTS}


def linted(kernel_source: KernelSource, folder: Path) -> LintedKernel:
    """The lint of a kernel's file, with all types and constants given."""
    path = folder / "kernel.py"
    path.write_text(kernel_source.text)
    given = {**kernel_source.signature, **{name: str(value) for name, value in kernel_source.constants.items()}}
    kernel = next(kernel for kernel in lint_file(path, given) if kernel.name == kernel_source.name)
    assert kernel.failure is None, kernel.failure
    return kernel


def test_every_rule_has_kernels():
    assert set(EVERY) == set(RULES)


@pytest.mark.parametrize("rule", PAIRS)
def test_finds(rule: str, tmp_path: Path):
    kernel = linted(PAIRS[rule].bad, tmp_path)
    assert rule in [finding.rule for finding in kernel.findings]
    lines = PAIRS[rule].bad.text.splitlines()
    for finding in kernel.findings:
        assert finding.line is not None and lines[finding.line - 1].startswith("    ")


@pytest.mark.parametrize("rule", PAIRS)
def test_leaves_alone(rule: str, tmp_path: Path):
    found = linted(PAIRS[rule].good, tmp_path).findings
    assert rule not in [finding.rule for finding in found]


def test_an_operand_that_few_rows_meet_may_be_computed_in_the_loop(tmp_path: Path):
    assert "N511" not in [finding.rule for finding in linted(CONVERTED_FOR_FEW_ROWS, tmp_path).findings]


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compilation]:
    """Both kernels of each rule by Ascend's compiler, by name."""
    kernels = [kernel for pair in EVERY.values() for kernel in (pair.bad, pair.good)]
    return {kernel.name: result for kernel, result in zip(kernels, compile_kernels(kernels, CHIP))}


def verdict(compilation: Compilation) -> Verdict:
    return Verdict.REFUSED if compilation.hivm is None else analyse(compilation.hivm, get_target(CHIP)).verdict


# Loops over elements that the verdict of the final IR takes for single elements.
SEEN_AS_SINGLE_ELEMENTS = {"N314", "N316"}
COMPILED_WELL = {Verdict.VECTOR, Verdict.CUBE, Verdict.MIXED}
EXPECTED = {
    Severity.REFUSED: {Verdict.REFUSED},
    Severity.SCALAR: {Verdict.SCALAR},
    Severity.ELEMENT_DMA: {Verdict.ELEMENT_DMA},
    Severity.WRONG: {*COMPILED_WELL, Verdict.SCALAR, Verdict.WRONG},  # accepted
    Severity.SLOW: {*COMPILED_WELL, Verdict.SCALAR, Verdict.ELEMENT_DMA},  # accepted
}


@pytest.mark.ascend
@pytest.mark.parametrize("rule", EVERY)
def test_compiler_does_what_the_rule_says(rule: str, compiled: dict[str, Compilation]):
    bad, good = compiled[EVERY[rule].bad.name], compiled[EVERY[rule].good.name]
    assert verdict(good) in COMPILED_WELL, good.message
    if rule in SEEN_AS_SINGLE_ELEMENTS:
        assert bad.hivm is not None
        assert analyse(bad.hivm, get_target(CHIP)).findings
    else:
        assert verdict(bad) in EXPECTED[RULES[rule].severity], bad.message


# Refused before there is TTIR; written out in TTIR as the arithmetic that it is made of.
NOT_IN_ASCENDS_TTIR = {"N205", "N108"}


@pytest.mark.ascend
@pytest.mark.parametrize("rule", sorted(set(EVERY) - NOT_IN_ASCENDS_TTIR))
def test_finds_in_ascends_ttir(rule: str, compiled: dict[str, Compilation]):
    bad, good = compiled[EVERY[rule].bad.name], compiled[EVERY[rule].good.name]
    assert bad.ttir is not None and good.ttir is not None
    assert rule in [finding.rule for finding in lint_ttir(bad.ttir)]
    assert rule not in [finding.rule for finding in lint_ttir(good.ttir)]


# A product of transposed matrices moves single elements, and its library function loops over them.
TOLD_BY_THEIR_CAUSE = {"matmul_transposed_pointers", "random_numbers"}


@pytest.mark.ascend
def test_agrees_with_the_compiler_about_every_access_pattern():
    """No false alarm and nothing missed among the kernels that the verdicts are tested by."""
    compilations = compile_kernels([case.source for case in CASES.values()], CHIP)
    different = {}
    for (name, case), compilation in zip(CASES.items(), compilations):
        assert compilation.ttir is not None
        severities = {finding.about.severity for finding in lint_ttir(compilation.ttir)}
        found = {severity.value for severity in severities - {Severity.SLOW, Severity.WRONG}}
        if found != {case.verdict.value} - {kind.value for kind in COMPILED_WELL} and name not in TOLD_BY_THEIR_CAUSE:
            different[name] = (case.verdict.value, found)
    assert not different


MASKS = {
    "i < n": True,
    "i <= n": True,
    "i >= n": True,
    "(i + 7) < n": True,
    "i.to(tl.int64) < n": True,
    "(i < n) & (n > 3)": True,
    "i < 500": True,
    "i > n": False,
    "n > i": False,
    "i != n": False,
    "~(i >= n)": False,
    "i * 2 < n": False,
    "(i - 7) < n": False,
    "(i // 4) < n": False,
    "i.to(tl.float32) < n": False,
    "tl.minimum(i, 500) < n": False,
    "(i < n) & (n // 2 <= i)": False,
}


@pytest.mark.ascend
def test_masks_that_limit_an_access():
    """Where a mask limits nothing, the adapter writes a selection."""
    kernels = [
        source(f"mask_{number}", f"{FLAT}\ntl.store(y + i, tl.load(x + i), mask={mask})", XY, {"TILE": 1024})
        for number, mask in enumerate(MASKS)
    ]
    for (mask, limits), compilation in zip(MASKS.items(), compile_kernels(kernels, CHIP)):
        assert compilation.linalg is not None and compilation.ttir is not None
        assert ("select" in compilation.linalg) is not limits, mask
        rules = {finding.rule for finding in lint_ttir(compilation.ttir)}
        assert bool(rules & {"N101", "N103"}) is not limits, mask


GATHER = textwrap.dedent(ROWS) + "k = tl.load(index + r, mask=r < M, other=0)\n"
TYPES = {"x": F32, "index": I32, "y": F32, "M": "i32", "N": "i32"}


@pytest.mark.ascend
def test_mask_along_the_rows_of_a_gather():
    """The load takes rows of 256 elements, whatever N is; a mask of the rows themselves is harmless."""
    masks = {"c[None, :] < N": True, "r[:, None] < M": False}
    kernels = [
        source(
            f"gathered_rows_{number}",
            f"{GATHER}v = tl.load(x + k[:, None] * N + c[None, :], mask={mask}, other=0.0)\n"
            "tl.store(y + r[:, None] * TC + c[None, :], v, mask=r[:, None] < M)",
            TYPES,
            {"TR": 16, "TC": 256},
        )
        for number, mask in enumerate(masks)
    ]
    for is_wrong, compilation in zip(masks.values(), compile_kernels(kernels, CHIP)):
        assert compilation.linalg is not None and compilation.ttir is not None
        assert "memref.copy %reinterpret_cast" in compilation.linalg
        assert ("N103" in {finding.rule for finding in lint_ttir(compilation.ttir)}) is is_wrong


@pytest.mark.parametrize(
    ("columns", "bound", "is_wrong"),
    [(8, "5", False), (8, "N", True), (16, "8", False), (16, "7", True), (128, "5", True)],
)
def test_32_bytes_behind_gathered_rows_may_be_read(columns: int, bound: str, is_wrong: bool, tmp_path: Path):
    kernel = source(
        "short_rows",
        f"{GATHER}v = tl.load(x + k[:, None] * 5 + c[None, :], mask=(r[:, None] < M) & (c[None, :] < {bound}))\n"
        "tl.store(y + r[:, None] * TC + c[None, :], v, mask=r[:, None] < M)",
        TYPES,
        {"TR": 16, "TC": columns},
    )
    assert ("N103" in {finding.rule for finding in linted(kernel, tmp_path).findings}) is is_wrong


@pytest.mark.ascend
def test_knows_ascends_libdevice(ascend: AscendEnvironment):
    """Every function of Ascend's module that does something, and no other."""
    question = (
        "from triton.language.extra.ascend import libdevice; from triton.language import core;"
        "print(*[name for name, value in vars(libdevice).items() if core.is_builtin(value)])"
    )
    answer = subprocess.run([ascend.python, "-c", question], capture_output=True, text=True, check=True).stdout
    assert set(answer.split()) >= ASCEND
    assert not ASCEND & {"atan2", "fmod", "div_rz"}


def test_guide_has_every_rule():
    guide = Path(__file__).parents[3] / "docs" / "ascend.md"
    assert as_markdown() in guide.read_text(), "paste what `python -m inductor_npu.ascend.lint.rules` prints"
