"""Ascend's HFusion operations, rewritten in MLIR's own dialects."""

from __future__ import annotations

import pytest

from inductor_npu.ascend.execute.elements import UnknownOperationError
from inductor_npu.ascend.execute.meaning import Writer

TILE = "tensor<4xi32>"


def rewrite(line: str) -> str:
    return Writer().rewrite(f"module {{\n{line}\n}}")


def binary(function: str) -> str:
    return (
        f"%2 = hfusion.elemwise_binary {{fun = #hfusion.binary_fn<{function}>}} ins(%0, %1 : {TILE}, {TILE}) "
        f"outs(%0 : {TILE}) -> {TILE}"
    )


def test_operations_become_linalg() -> None:
    text = rewrite(binary("vand"))
    assert "hfusion" not in text and "%2 = linalg.generic" in text and "arith.andi" in text


def test_an_unsigned_shift_copies_the_sign_as_the_chip_does() -> None:
    assert "arith.shrsi" in rewrite(binary("shrui"))


def test_not_flips_every_bit() -> None:
    text = rewrite(
        f"%1 = hfusion.elemwise_unary {{fun = #hfusion.unary_fn<vnot>}} ins(%0 : {TILE}) outs(%0 : {TILE}) -> {TILE}"
    )
    assert "arith.constant -1 : i32" in text and "arith.xori" in text


def test_what_is_not_known_is_named() -> None:
    with pytest.raises(UnknownOperationError, match=r"hfusion\.elemwise_binary sorcery"):
        rewrite(binary("sorcery"))
    with pytest.raises(UnknownOperationError, match=r"hfusion\.conv3d"):
        rewrite("%1 = hfusion.conv3d %0")


def test_a_reduction_without_a_beginning_is_refused() -> None:
    reduction = f"%2 = linalg.reduce ins(%0 : tensor<4x8xi32>) outs(%1 : {TILE}) dimensions = [1]"
    with pytest.raises(UnknownOperationError, match="uninitialised"):
        rewrite(f"%1 = tensor.empty() : {TILE}\n{reduction}")


def test_prints_and_marks_are_dropped() -> None:
    assert rewrite('hfusion.print " v: " {hex = false} %0 : tensor<64xf32>') == "module {\n}\n"
