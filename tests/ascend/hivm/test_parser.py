"""The reader of the final IR: what it makes of the text, and that it never reads wrong in silence."""

from __future__ import annotations

import time

import pytest

from inductor_npu.ascend.hivm.affine import read_affine_map
from inductor_npu.ascend.hivm.ir import Location, MemRefType
from inductor_npu.ascend.hivm.parser import parse
from inductor_npu.ascend.hivm.types import read_type, split_types
from inductor_npu.errors import HivmSyntaxError
from tests.ascend.hivm.golden import DATA, text

HEAD = """module attributes {} {
  func.func @k(%arg0: memref<?xf32, #hivm.address_space<gm>>, %arg1: i32) attributes {hacc.entry} {
"""
TAIL = "    return\n  }\n}\n"


def operations(body: str) -> list:
    return parse(HEAD + body + TAIL).functions[0].body.operations


def test_a_memref_type_with_strides_offset_and_space():
    assert read_type("memref<8x?xf32, strided<[?, 1], offset: ?>, #hivm.address_space<gm>>") == MemRefType(
        (8, None), (None, 1), None, "f32", "gm"
    )


def test_a_memref_type_without_layout_is_contiguous():
    assert read_type("memref<4x8xi1, #hivm.address_space<ub>>") == MemRefType((4, 8), (8, 1), 0, "i1", "ub")


def test_types_are_split_at_commas_outside_of_brackets():
    assert split_types("i32, memref<2xf32, strided<[1]>>, (i1, i2) -> i8,i16") == [
        "i32",
        "memref<2xf32, strided<[1]>>",
        "(i1, i2) -> i8",
        "i16",
    ]


@pytest.mark.parametrize(
    ("text", "results"),
    [
        ("(d0 + s0, d1 floordiv 2)", (13, 3)),
        ("((d0 - d1) * 2,d1 mod 4,s0)", (-8, 3, 10)),
        ("(-s0)", (-10,)),
        ("()", ()),
    ],
)
def test_results_of_an_affine_map(text: str, results: tuple[int, ...]):
    assert read_affine_map(f"affine_map<(d0, d1)[s0] -> {text}>")(3, 7, 10) == results


def test_a_loop_with_carried_values():
    loop = operations(
        "    %c0 = arith.constant 0 : i32\n    %c8 = arith.constant 8 : i32\n"
        "    %0 = scf.for %i = %c0 to %arg1 step %c8 iter_args(%a = %c0) -> (i32)  : i32 {\n"
        "      %1 = arith.addi %a, %i : i32\n      scf.yield %1 : i32\n    } {some.attribute}\n"
    )[2]
    assert loop.name == "scf.for"
    assert [operand.name for operand in loop.operands] == ["%c0", "%arg1", "%c8", "%c0"]
    assert [argument.name for argument in loop.regions[0].arguments] == ["%i", "%a"]
    assert [operation.name for operation in loop.regions[0].operations] == ["arith.addi", "scf.yield"]
    assert loop.attributes["attributes"] == "{some.attribute}"


def test_names_of_sibling_regions_do_not_mix():
    first, second = operations(
        "    %true = arith.constant true\n"
        "    scf.if %true {\n      %1 = arith.constant 1 : i32\n      %2 = arith.addi %1, %arg1 : i32\n    } else {\n"
        "      %1 = arith.constant 2 : i32\n      %2 = arith.addi %1, %arg1 : i32\n    }\n"
    )[1].regions
    assert first.operations[1].operands[0].owner.attributes["value"] == 1
    assert second.operations[1].operands[0].owner.attributes["value"] == 2


def test_an_unknown_operation_is_kept_with_operands_and_results():
    operation = operations("    %0, %1 = strange.thing %arg0 [%arg1] {a = 1 : i32} : memref<?xf32> -> i32, f32\n")[0]
    assert operation.name == "strange.thing"
    assert [value.name for value in operation.operands] == ["%arg0", "%arg1"]
    assert [value.type for value in operation.results] == ["i32", "f32"]


def test_two_results_under_one_name():
    body = "    %0:2 = arith.mulsi_extended %arg1, %arg1 : i32\n    %1 = arith.addi %0#0, %0#1 : i32\n"
    product, total, _ = operations(body)
    assert total.operands == product.results


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("    %0 = arith.addi %nowhere, %arg1 : i32\n", "%nowhere is used and never defined"),
        ("    %0 = affine.apply #map7()[%arg1]\n", "#map7 is used and never defined"),
        ("    cf.br ^bb1\n", "branches between blocks are not followed"),
        ("    ???\n", "expected an operation"),
        ("    %0 = memref.subview %arg0[0] [4] : memref<?xf32> to memref<4xf32>\n", "3 lists of indices"),
        ("    scf.for %i from nowhere {\n    }\n", "a loop's header"),
        ("    %0 = arith.constant 1 : memref<4xq7>\n", "memref type"),
    ],
)
def test_what_cannot_be_read_is_an_error_with_its_line(body: str, reason: str):
    with pytest.raises(HivmSyntaxError, match="line 3 of the final HIVM IR") as caught:
        operations(body)
    assert reason in str(caught.value)


def test_a_text_that_ends_too_early():
    with pytest.raises(HivmSyntaxError, match="region without an end"):
        parse(HEAD + "    %c0 = arith.constant 0 : i32\n")


def test_no_device_function():
    with pytest.raises(HivmSyntaxError, match="no device function"):
        parse("module {\n}\n")


def test_functions_of_the_host_and_declarations_are_left_out():
    assert [function.name for function in parse(text("softmax_rows")).functions] == ["softmax_rows"]
    assert [function.core for function in parse(text("matmul_relu")).functions] == ["AIC", "AIV"]


def test_locations_are_the_kernels_own_lines():
    function = parse(text("softmax_rows")).functions[0]
    calls = [operation for operation in function.body.walk() if operation.name == "func.call"]
    reduction = next(call for call in calls if "reduce_max" in str(call.attributes["callee"]))
    assert isinstance(reduction.location, Location)  # not the line of tl.max inside Triton's library
    assert reduction.location.file == "kernels.py"
    assert function.location.line < reduction.location.line < function.location.line + 9


def test_an_operation_with_regions_has_the_location_behind_its_last_one():
    _, loop, branches = operations(
        "    %true = arith.constant true\n"
        "    scf.for %i = %arg1 to %arg1 step %arg1 : i32 {\n"
        '      %1 = arith.addi %i, %i : i32 loc("kernels.py":9:1)\n    } {an.attribute} loc("kernels.py":3:1)\n'
        "    scf.if %true {\n"
        '      %1 = arith.addi %arg1, %arg1 : i32 loc("kernels.py":6:1)\n    } else {\n'
        '      %1 = arith.addi %arg1, %arg1 : i32 loc("kernels.py":7:1)\n    } loc("kernels.py":5:1)\n'
    )[:3]
    assert [operation.location for operation in (loop, branches)] == [Location("kernels.py", n) for n in (3, 5)]


def test_the_chip_is_read_from_the_module():
    assert parse(text("softmax_rows")).target["UB_SIZE"] == 192 * 1024 * 8


@pytest.mark.budget
def test_three_hundred_kernels_take_seconds():
    texts = [path.read_text() for path in sorted(DATA.glob("*.mlir"))]
    begin = time.process_time()
    for body in texts:
        parse(body)
    assert (time.process_time() - begin) / len(texts) * 300 < 6
