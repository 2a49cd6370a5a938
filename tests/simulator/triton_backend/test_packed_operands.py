"""Where operands of products are packed, and which parts of a product are left out."""

from __future__ import annotations

from inductor_npu.simulator.triton_backend.codegen.analysis.operations import PACK
from inductor_npu.simulator.triton_backend.codegen.analysis.tile_extents import Extents, dot_extents
from inductor_npu.simulator.triton_backend.codegen.rewriting.packed_operands import pack_operands
from inductor_npu.simulator.triton_backend.mathlib import HostVectors
from inductor_npu.simulator.triton_backend.ttir.ir import Function, Op
from inductor_npu.simulator.triton_backend.ttir.parser import parse

TILE = "tensor<16x16xf32>"
POINTERS = "tensor<16x16x!tt.ptr<f32>>"
PARAMETERS = f"%pa: {POINTERS}, %pb: {POINTERS}, %pc: {POINTERS}, %n: i32, %m: i32"
DOT = f"{TILE} * {TILE} -> {TILE}"
BEGIN = f"""
%zero = arith.constant dense<0.0> : {TILE}
%one = arith.constant 1 : i32
%range = tt.make_range {{start = 0 : i32, end = 16 : i32}} : tensor<16xi32>
%column = tt.expand_dims %range {{axis = 1 : i32}} : tensor<16xi32> -> tensor<16x1xi32>
%limit = tt.splat %m : i32 -> tensor<16x1xi32>
%below = arith.cmpi slt, %column, %limit : tensor<16x1xi32>
%mask = tt.broadcast %below : tensor<16x1xi1> -> tensor<16x16xi1>
"""


def kernel(text: str) -> Function:
    return parse(f"module {{\ntt.func public @k({PARAMETERS}) {{\n{BEGIN}{text}\ntt.return\n}}\n}}\n").kernel


def packed(text: str) -> Function:
    function = kernel(text)
    pack_operands(function, HostVectors(), observed=False)
    return function


def names(ops: list[Op]) -> list[str]:
    return [op.name for op in ops if op.name in (PACK, "tt.dot", "scf.for", "tt.load")]


def extents(text: str) -> Extents:
    (found,) = dot_extents(kernel(text)).values()
    return found


def test_an_operand_of_two_products_is_packed_once() -> None:
    function = packed(f"""
%a = tt.load %pa : {POINTERS}
%b = tt.load %pb : {POINTERS}
%d = tt.dot %a, %b, %zero : {DOT}
%e = tt.dot %a, %d, %d : {DOT}
tt.store %pc, %e : {POINTERS}""")
    assert names(function.body.ops) == ["tt.load", "tt.load", PACK, PACK, "tt.dot", PACK, "tt.dot"]


def test_what_a_loop_does_not_change_is_packed_before_it() -> None:
    function = packed(f"""
%a = tt.load %pa : {POINTERS}
%r = scf.for %i = %one to %n step %one iter_args(%acc = %zero) -> ({TILE})  : i32 {{
  %b = tt.load %pb : {POINTERS}
  %d = tt.dot %a, %b, %acc : {DOT}
  scf.yield %d : {TILE}
}}
tt.store %pc, %r : {POINTERS}""")
    assert names(function.body.ops) == ["tt.load", PACK, "scf.for"]
    (loop,) = (op for op in function.body.ops if op.name == "scf.for")
    assert names(loop.regions[0].ops) == ["tt.load", PACK, "tt.dot"]


PRODUCT = f"""
%a = tt.load %pa, %mask, %zero : {POINTERS}
%b = tt.load %pb : {POINTERS}
%d = tt.dot %a, %b, %zero : {DOT}"""
# The same comparison once more, as the front end writes it behind a loop.
AGAIN = """
%below2 = arith.cmpi slt, %column, %limit : tensor<16x1xi32>
%mask2 = tt.broadcast %below2 : tensor<16x1xi1> -> tensor<16x16xi1>"""


def test_rows_that_neither_a_nor_a_store_has_are_left_out() -> None:
    found = extents(f"{PRODUCT}{AGAIN}\n%e = math.exp %d : {TILE}\ntt.store %pc, %e, %mask2 : {POINTERS}")
    assert [axis for _, axis in found.rows] == [0]
    assert not found.columns
    assert not found.depth, "B has all steps"


def test_rows_may_be_compared_before_they_are_a_column() -> None:
    """As `mask[:, None]` of a mask that was made of `rows < limit`."""
    found = extents(f"""
%limits = tt.splat %m : i32 -> tensor<16xi32>
%below1 = arith.cmpi slt, %range, %limits : tensor<16xi32>
%column1 = tt.expand_dims %below1 {{axis = 1 : i32}} : tensor<16xi1> -> tensor<16x1xi1>
%mask1 = tt.broadcast %column1 : tensor<16x1xi1> -> tensor<16x16xi1>
%a = tt.load %pa, %mask1 : {POINTERS}
%b = tt.load %pb : {POINTERS}
%d = tt.dot %a, %b, %zero : {DOT}
tt.store %pc, %d, %mask1 : {POINTERS}""")
    assert [axis for _, axis in found.rows] == [0]


def test_rows_of_a_store_without_their_mask_are_computed() -> None:
    stored = f"tt.store %pc, %d, %mask : {POINTERS}"
    assert not extents(f"{PRODUCT}\n{stored}\ntt.store %pc, %d : {POINTERS}").rows


def test_rows_that_move_are_computed() -> None:
    turned = f"%t = tt.trans %d {{order = array<i32: 1, 0>}} : {TILE} -> {TILE}"
    assert not extents(f"{PRODUCT}\n{turned}\ntt.store %pc, %t, %mask : {POINTERS}").rows


def test_rows_that_decide_a_mask_are_computed() -> None:
    positive = f"%p = arith.cmpf ogt, %d, %zero : {TILE}"
    assert not extents(f"{PRODUCT}\n{positive}\ntt.store %pc, %d, %p : {POINTERS}").rows


def test_steps_that_both_operands_load_as_zeros_are_left_out() -> None:
    found = extents(f"""
%row = tt.expand_dims %range {{axis = 0 : i32}} : tensor<16xi32> -> tensor<1x16xi32>
%limit2 = tt.splat %m : i32 -> tensor<1x16xi32>
%below2 = arith.cmpi slt, %row, %limit2 : tensor<1x16xi32>
%mask2 = tt.broadcast %below2 : tensor<1x16xi1> -> tensor<16x16xi1>
%a = tt.load %pa, %mask2, %zero : {POINTERS}
%b = tt.load %pb, %mask, %zero : {POINTERS}
%d = tt.dot %a, %b, %zero : {DOT}
tt.store %pc, %d : {POINTERS}""")
    assert [axis for _, axis in found.depth] == [1, 0]
    assert not found.rows
    assert not found.columns


def test_steps_that_one_operand_loads_as_ones_are_multiplied() -> None:
    found = extents(f"""
%ones = arith.constant dense<1.0> : {TILE}
%a = tt.load %pa, %mask, %zero : {POINTERS}
%t = tt.trans %a {{order = array<i32: 1, 0>}} : {TILE} -> {TILE}
%b = tt.load %pb, %mask, %ones : {POINTERS}
%d = tt.dot %t, %b, %zero : {DOT}
tt.store %pc, %d : {POINTERS}""")
    assert not found.depth
