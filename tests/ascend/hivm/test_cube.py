"""Kernels with dots in the final IR: what they are, what they lose, and what the compiler makes wrong of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from inductor_npu.ascend.compilation import compile_kernels
from inductor_npu.ascend.hivm import Analysis, Verdict, analyse
from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.target import get_target
from tests.ascend.kernels import kernel
from tests.ascend.lint.product_cases import PRODUCT_PAIRS

pytestmark = pytest.mark.ascend
CHIP = "Ascend910B3"


def product(
    name: str, load_a: str = "", load_b: str = "", result: str = "c", block: int = 64, mask: str = "m[:, None] < hi"
) -> KernelSource:
    """A loop over tiles of a product; loads of its operands have these masks."""
    return kernel(
        f"""
        def {name}(a, b, y, n, lo, hi, B: tl.constexpr, K: tl.constexpr):
            m = tl.arange(0, B)
            k = tl.arange(0, K)
            for t in range(tl.program_id(0), n, tl.num_programs(0)):
                left = tl.load(a + t * B * K + m[:, None] * K + k[None, :]{load_a})
                right = tl.load(b + k[:, None] * B + m[None, :]{load_b})
                c = tl.dot(left, right)
                tl.store(y + t * B * B + m[:, None] * B + m[None, :], {result}, mask={mask})
        """,
        {"a": "*fp16", "b": "*fp16", "y": "*fp32", "n": "i32", "lo": "i32", "hi": "i32"},
        {"B": block, "K": 64},
    )


def between(index: str) -> str:
    return f", mask=({index} >= lo) & ({index} < hi), other=0.0"


KERNELS = {
    "pure": product("pure"),
    "mixed": product("mixed", result="tl.exp(c)"),
    "unmasked": product("unmasked", result="tl.exp(c)", mask="None"),
    "odd": product("odd", result="tl.exp(c)", block=63),
    "one buffer": replace(product("one_buffer"), options={"multibuffer": False}),
    "one tile": replace(product("one_tile", result="tl.exp(c)"), options={"set_workspace_multibuffer": 1}),
    "two in L0C": replace(product("two_in_l0c"), options={"limit_auto_multi_buffer_of_local_buffer": "no-limit"}),
    "lower bound on K": product("lower_k", load_a=between("k[None, :]")),
    "lower bound on columns": product("lower_n", load_b=between("m[None, :]")),
    "lower bound on rows": product("lower_m", load_a=between("m[:, None]")),
    "upper bounds": product("upper", load_a=", mask=k[None, :] < hi, other=0.0"),
    "atomic": PRODUCT_PAIRS["N109"].bad,
    "atomic after arithmetic": replace(
        PRODUCT_PAIRS["N109"].bad, text=PRODUCT_PAIRS["N109"].bad.text.replace("+ at, acc,", "+ at, acc * 2.0,")
    ),
    "int8": PRODUCT_PAIRS["N110"].bad,
}


@pytest.fixture(scope="module")
def analysed() -> dict[str, Analysis]:
    compiled = compile_kernels(list(KERNELS.values()), CHIP)
    for name, result in zip(KERNELS, compiled):
        assert result.hivm is not None, f"{name}: {result.message}"
    return {name: analyse(str(result.hivm), get_target(CHIP)) for name, result in zip(KERNELS, compiled)}


def kinds(analysis: Analysis) -> set[str]:
    return {finding.kind for finding in analysis.findings}


def test_the_cube_core_alone(analysed: dict[str, Analysis]) -> None:
    found = analysed["pure"]
    assert found.verdict is Verdict.CUBE and not found.findings
    assert found.cube is not None and not found.cube.vectors
    assert (found.cube.workspace_bytes, found.cube.workspace_depth, found.cube.rows_shared) == (0, 0, None)
    assert found.cube.l1_doubled == 2


def test_cube_core_and_vector_cores(analysed: dict[str, Analysis]) -> None:
    found = analysed["mixed"]
    assert found.verdict is Verdict.MIXED and not found.findings
    assert found.cube is not None and found.cube.vectors and found.cube.rows_shared
    assert (found.cube.workspace_bytes, found.cube.workspace_depth) == (4 * 64 * 64 * 4, 4)


@pytest.mark.parametrize("name", ["odd", "unmasked"])
def test_rows_that_are_not_shared(name: str, analysed: dict[str, Analysis]) -> None:
    found = analysed[name]
    assert found.cube is not None and found.cube.rows_shared is False
    assert (found.verdict, kinds(found)) == (Verdict.MIXED, {"NS"})


def test_what_is_lost_without_buffers(analysed: dict[str, Analysis]) -> None:
    assert kinds(analysed["one buffer"]) == {"NB"}
    assert kinds(analysed["one tile"]) == {"NW"}


def test_l0c_is_doubled_on_request(analysed: dict[str, Analysis]) -> None:
    plain, asked = analysed["pure"].cube, analysed["two in L0C"].cube
    assert plain is not None and asked is not None
    assert (plain.l0c_doubled, asked.l0c_doubled) == (0, 1)


@pytest.mark.parametrize(
    "name", ["lower bound on K", "lower bound on columns", "atomic", "atomic after arithmetic", "int8"]
)
def test_wrong_code(name: str, analysed: dict[str, Analysis]) -> None:
    found = analysed[name]
    assert found.verdict is Verdict.WRONG
    assert any(finding.kind == "WC" and finding.what.startswith("kernel.py:") for finding in found.findings)


@pytest.mark.parametrize("name", ["lower bound on rows", "upper bounds"])
def test_bounds_that_are_right(name: str, analysed: dict[str, Analysis]) -> None:
    assert analysed[name].verdict is Verdict.CUBE
