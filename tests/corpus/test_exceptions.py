"""Why kernels are not vector: the categories, and that the compiler's defects are still there."""

from __future__ import annotations

import re

import pytest

from corpus import exceptions, table
from corpus.check import check
from corpus.defects import DEFECTS
from corpus.exceptions import Category
from corpus.table import Line
from inductor_npu.ascend.compilation import compile_kernels
from inductor_npu.providers import DEFAULT_TARGET


@pytest.mark.ascend
def test_each_defect_shows_with_its_small_kernel() -> None:
    """Where this fails, a newer compiler may have mended it: then what goes round it can go, too."""
    compilations = compile_kernels([defect.kernel for defect in DEFECTS], DEFAULT_TARGET, jobs=1)
    for defect, compilation in zip(DEFECTS, compilations, strict=True):
        assert compilation.failed is not None and re.search(defect.message, compilation.message), defect.name


@pytest.mark.ascend
@pytest.mark.slow
def test_a_reason_is_given_of_what_no_tile_changes() -> None:
    wanted = {
        "activation/relu": "",
        "piece/diagonal": f"{Category.LAYOUT.value}: neighbours lie apart (129 elements)",
        "dtype/double": f"{Category.ARITHMETIC.value}: float64",
    }
    lines = check(list(wanted), DEFAULT_TARGET, jobs=1, progress=lambda what, done, total: None)
    assert {line.program: line.exception for line in lines if line.kernel == 1} == wanted


def test_the_list_has_each_kernel_under_its_reason(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exceptions, "FOLDER", tmp_path)
    narrow = f"{Category.LAYOUT.value}: rows shorter than the 32 bytes of a block"
    lines = [
        Line("softmax", 1, "", "vector"),
        Line("stack", 1, "", "element DMA", exception=f"{narrow} (x of 2, 8 bytes)"),
        Line("cat", 1, "", "element DMA", exception=f"{narrow} (x of 3, 12 bytes)"),
        Line("cat", 2, "", "element DMA", same_as="cat 1"),
        Line("bessel", 1, "", "refused", exception=f"{Category.ARITHMETIC.value}: float64"),
    ]
    exceptions.write("Chip", lines)
    text = exceptions.path_of("Chip").read_text()
    assert "- **rows shorter than the 32 bytes of a block** (2): stack 1, cat 1\n" in text
    assert "- **float64** (1): bessel 1\n" in text and "softmax" not in text
    assert exceptions.counts(lines)[Category.LAYOUT.value] == 2


def test_each_exception_of_the_table_in_git_has_a_category() -> None:
    bad = [line for line in table.read(DEFAULT_TARGET) if line.exception]
    assert all(line.exception.startswith(tuple(f"{category.value}: " for category in Category)) for line in bad)
