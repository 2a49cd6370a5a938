"""How many bytes of tiles a kernel has live at once: the model that decides what fits the Unified Buffer."""

from __future__ import annotations

from inductor_npu.simulator.triton_backend.ttir.budget import Footprint, footprint
from inductor_npu.simulator.triton_backend.ttir.parser import parse
from inductor_npu.simulator.triton_backend.ttir.vector_unit import SCRATCH_OF_SELECTION
from inductor_npu.target import get_target

TARGET = get_target("Ascend910B3")
TILE = 1024 * 4  # bytes of tensor<1024xf32>

# Addresses, a mask and two loaded tiles that the kernels below start from.
INDEX = """
%c = arith.constant 1024 : i32
%pid = tt.get_program_id x : i32
%base = arith.muli %pid, %c : i32
%range = tt.make_range {end = 1024 : i32, start = 0 : i32} : tensor<1024xi32>
%base_tile = tt.splat %base : i32 -> tensor<1024xi32>
%offset = arith.addi %base_tile, %range : tensor<1024xi32>
%n_tile = tt.splat %n : i32 -> tensor<1024xi32>
%mask = arith.cmpi slt, %offset, %n_tile : tensor<1024xi32>
%p_tile = tt.splat %p : !tt.ptr<f32> -> tensor<1024x!tt.ptr<f32>>
%at = tt.addptr %p_tile, %offset : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
"""
LOAD = "tt.load %at, %mask : tensor<1024x!tt.ptr<f32>>"
STORE = "tt.store %at, {}, %mask : tensor<1024x!tt.ptr<f32>>"


def measure(text: str, parameters: str = "%p: !tt.ptr<f32>, %n: i32, %x: f32") -> Footprint:
    module = parse(f"module {{\n  tt.func public @k({parameters}) {{\n{text}\n    tt.return\n  }}\n}}\n")
    return footprint(module.kernel, TARGET)


def test_index_arithmetic_and_masks_that_bound_a_transfer_take_no_space() -> None:
    copy = f"%a = {LOAD}\n"
    assert measure(INDEX + copy + STORE.format("%a")).unified_buffer == TILE


def test_a_number_is_spread_over_a_tile_only_where_an_operation_takes_none() -> None:
    constant = "%zero = arith.constant dense<0.0> : tensor<1024xf32>\n"
    added = f"%a = {LOAD}\n%s = arith.addf %a, %zero : tensor<1024xf32>\n"
    assert measure(INDEX + constant + STORE.format("%zero")).unified_buffer == TILE
    assert measure(INDEX + constant + added + STORE.format("%s")).unified_buffer == TILE
    inverse = f"%a = {LOAD}\n%s = arith.divf %zero, %a : tensor<1024xf32>\n"
    assert measure(INDEX + constant + inverse + STORE.format("%s")).unified_buffer == 2 * TILE


def test_an_index_that_data_is_computed_from_is_a_tile() -> None:
    summed = f"%a = {LOAD}\n%i = arith.sitofp %offset : tensor<1024xi32> to tensor<1024xf32>\n"
    sink = "%s = arith.addf %a, %i : tensor<1024xf32>\n"
    assert measure(INDEX + summed + sink + STORE.format("%s")).unified_buffer == 2 * TILE


def test_a_masked_load_from_a_divided_index_reads_everything_and_selects() -> None:
    divided = """%seven = arith.constant dense<7> : tensor<1024xi32>
%row = arith.divsi %offset, %seven : tensor<1024xi32>
%from = tt.addptr %p_tile, %row : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
"""
    whole = "%a = tt.load %from : tensor<1024x!tt.ptr<f32>>\n"
    masked = "%a = tt.load %from, %mask : tensor<1024x!tt.ptr<f32>>\n"
    assert measure(INDEX + divided + whole + STORE.format("%a")).unified_buffer == TILE
    needed = measure(INDEX + divided + masked + STORE.format("%a")).unified_buffer
    assert needed == 3 * TILE + SCRATCH_OF_SELECTION  # the mask in the index's place, what is loaded, what is selected


def test_an_operation_has_its_temporaries() -> None:
    erf = f"%a = {LOAD}\n%e = math.erf %a : tensor<1024xf32>\n"
    assert measure(INDEX + erf + STORE.format("%e")).unified_buffer == 3 * TILE


def test_elements_that_lie_apart_take_a_block_each_until_they_are_packed() -> None:
    apart = """%three = arith.constant dense<3> : tensor<1024xi32>
%far = arith.muli %offset, %three : tensor<1024xi32>
%from = tt.addptr %p_tile, %far : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
%a = tt.load %from : tensor<1024x!tt.ptr<f32>>
"""
    assert measure(INDEX + apart + STORE.format("%a")).unified_buffer == 8 * TILE + TILE
    store = "tt.store %from, %a : tensor<1024x!tt.ptr<f32>>"
    assert measure(INDEX + apart + store).unified_buffer == 8 * TILE


def test_a_maximum_with_a_number_has_two_temporaries_more() -> None:
    zero = f"%a = {LOAD}\n%zero = arith.constant dense<0.0> : tensor<1024xf32>\n"
    text = "%m = arith.maxnumf %a, {} : tensor<1024xf32>\n" + STORE.format("%m")
    with_tile = f"%b = {LOAD}\n" + text.format("%b")
    assert measure(INDEX + zero + text.format("%zero")).unified_buffer == 5 * TILE
    assert measure(INDEX + zero + with_tile).unified_buffer == 4 * TILE


def test_bytes_become_wider_numbers_by_way_of_16_bits() -> None:
    address = """%b_tile = tt.splat %b : !tt.ptr<i8> -> tensor<1024x!tt.ptr<i8>>
%from = tt.addptr %b_tile, %offset : tensor<1024x!tt.ptr<i8>>, tensor<1024xi32>
%v = tt.load %from, %mask : tensor<1024x!tt.ptr<i8>>
"""
    parameters = "%p: !tt.ptr<f32>, %n: i32, %b: !tt.ptr<i8>"
    wide = "%w = arith.sitofp %v : tensor<1024xi8> to tensor<1024xf32>\n" + STORE.format("%w")
    assert measure(INDEX + address + wide, parameters).unified_buffer == (2 + 4) * 1024
    compared = f"""%zero = arith.constant dense<0> : tensor<1024xi32>
%w = arith.extui %v : tensor<1024xi8> to tensor<1024xi32>
%m = arith.cmpi ne, %w, %zero : tensor<1024xi32>
%a = {LOAD}
%s = arith.select %m, %a, %a : tensor<1024xi1>, tensor<1024xf32>
"""
    needed = measure(INDEX + address + compared + STORE.format("%s"), parameters).unified_buffer
    assert needed == (1 + 2 + 2 + 4 + 4) * 1024  # bytes, both sides of the comparison, what is selected from, and to


def test_an_elementwise_chain_works_in_place() -> None:
    chain = f"%a = {LOAD}\n%b = math.exp %a : tensor<1024xf32>\n%c2 = math.absf %b : tensor<1024xf32>\n"
    assert measure(INDEX + chain + STORE.format("%c2")).unified_buffer == TILE


def test_two_operands_are_live_together() -> None:
    total = f"%a = {LOAD}\n%b = {LOAD}\n%s = arith.addf %a, %b : tensor<1024xf32>\n"
    assert measure(INDEX + total + STORE.format("%s")).unified_buffer == 2 * TILE


def test_a_tile_needed_later_stays() -> None:
    kept = f"%a = {LOAD}\n%b = math.exp %a : tensor<1024xf32>\n%s = arith.addf %a, %b : tensor<1024xf32>\n"
    assert measure(INDEX + kept + STORE.format("%s")).unified_buffer == 2 * TILE


def test_a_wider_result_does_not_fit_in_its_operands_place() -> None:
    widened = f"%a = {LOAD}\n%b = arith.extf %a : tensor<1024xf32> to tensor<1024xf64>\n"
    sink = "%r = arith.truncf %b : tensor<1024xf64> to tensor<1024xf32>\n" + STORE.format("%r")
    assert measure(INDEX + widened + sink).unified_buffer == 3 * TILE


def test_a_mask_of_data_takes_one_bit_an_element() -> None:
    compared = f"%a = {LOAD}\n%b = {LOAD}\n%m = arith.cmpf olt, %a, %b : tensor<1024xf32>\n"
    chosen = "%s = arith.select %m, %a, %b : tensor<1024xi1>, tensor<1024xf32>\n"
    needed = measure(INDEX + compared + chosen + STORE.format("%s")).unified_buffer
    assert needed == 3 * TILE + 1024 // 8 + SCRATCH_OF_SELECTION  # what is selected takes no operand's place


def test_sizes_are_rounded_up_to_the_alignment() -> None:
    text = """
%range = tt.make_range {end = 2 : i32, start = 0 : i32} : tensor<2xi32>
%p_tile = tt.splat %p : !tt.ptr<f32> -> tensor<2x!tt.ptr<f32>>
%at = tt.addptr %p_tile, %range : tensor<2x!tt.ptr<f32>>, tensor<2xi32>
%a = tt.load %at : tensor<2x!tt.ptr<f32>>
tt.store %at, %a : tensor<2x!tt.ptr<f32>>"""
    assert measure(text).unified_buffer == TARGET.burst_bytes


def reduce_rows(combine: str, tile: str) -> str:
    return f"""%a = {LOAD}
%row = tt.expand_dims %a {{axis = 0 : i32}} : tensor<1024xf32> -> tensor<1x1024xf32>
%wide = tt.broadcast %row : tensor<1x1024xf32> -> tensor<16x1024xf32>
{combine}
%r = "tt.reduce"({tile}) <{{axis = 1 : i32}}> ({{
^bb0(%u: f32, %v: f32):
  %w = arith.addf %u, %v : f32
  tt.reduce.return %w : f32
}}) : (tensor<16x1024xf32>) -> tensor<16xf32>
%q = tt.splat %p : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
%ix = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
%out = tt.addptr %q, %ix : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
tt.store %out, %r : tensor<16x!tt.ptr<f32>>"""


def test_a_reduction_along_rows_needs_half_a_tile_and_no_broadcast_that_arithmetic_reads() -> None:
    half = 16 * TILE // 2
    assert measure(INDEX + reduce_rows("", "%wide")).unified_buffer == TILE + 16 * TILE + half
    twice = "%tile = arith.addf %wide, %wide : tensor<16x1024xf32>"
    assert measure(INDEX + reduce_rows(twice, "%tile")).unified_buffer == TILE + 16 * TILE + half


def test_a_transpose_needs_a_second_tile() -> None:
    text = f"""%a = {LOAD}
%square = tt.reshape %a : tensor<1024xf32> -> tensor<32x32xf32>
%turned = tt.trans %square {{order = array<i32: 1, 0>}} : tensor<32x32xf32> -> tensor<32x32xf32>
%flat = tt.reshape %turned : tensor<32x32xf32> -> tensor<1024xf32>
"""
    assert measure(INDEX + text + STORE.format("%flat")).unified_buffer == 2 * TILE


def loop(body: str, carried: str = "%acc", before: str = "") -> str:
    return f"""{INDEX}%zero = arith.constant dense<0.0> : tensor<1024xf32>
{before}
%r = scf.for %i = %c to %n step %c iter_args(%acc = %zero) -> (tensor<1024xf32>)  : i32 {{
{body}
  scf.yield {carried} : tensor<1024xf32>
}}
{STORE.format("%r")}"""


def test_a_carried_value_takes_one_tile() -> None:
    accumulate = f"%a = {LOAD}\n%s = arith.addf %acc, %a : tensor<1024xf32>"
    assert measure(loop(accumulate, "%s")).unified_buffer == 2 * TILE


def test_what_a_loop_reads_from_outside_stays_throughout() -> None:
    use = f"%a = {LOAD}\n%b = arith.addf %outside, %a : tensor<1024xf32>\n"
    accumulate = use + "%s = arith.addf %acc, %b : tensor<1024xf32>"
    assert measure(loop(accumulate, "%s", before=f"%outside = {LOAD}")).unified_buffer == 3 * TILE


def test_an_offset_that_a_loop_advances_is_index_arithmetic() -> None:
    text = f"""{INDEX}%step = arith.constant dense<1024> : tensor<1024xi32>
%r = scf.for %i = %c to %n step %c iter_args(%o = %offset) -> (tensor<1024xi32>)  : i32 {{
  %q = tt.addptr %p_tile, %o : tensor<1024x!tt.ptr<f32>>, tensor<1024xi32>
  %a = tt.load %q : tensor<1024x!tt.ptr<f32>>
  tt.store %q, %a : tensor<1024x!tt.ptr<f32>>
  %next = arith.addi %o, %step : tensor<1024xi32>
  scf.yield %next : tensor<1024xi32>
}}"""
    assert measure(text).unified_buffer == TILE


def test_branches_do_not_add_up() -> None:
    text = f"""{INDEX}%k = arith.cmpi slt, %n, %c : i32
%r = scf.if %k -> (tensor<1024xf32>) {{
  %a = {LOAD}
  %b = {LOAD}
  %s = arith.addf %a, %b : tensor<1024xf32>
  scf.yield %s : tensor<1024xf32>
}} else {{
  %a = {LOAD}
  scf.yield %a : tensor<1024xf32>
}}
{STORE.format("%r")}"""
    assert measure(text).unified_buffer == 2 * TILE


def test_the_largest_tiles_are_named_with_their_lines() -> None:
    text = f"""%a = {LOAD} loc("k.py":3:1)
%b = {LOAD} loc("k.py":4:1)
%h = arith.truncf %b : tensor<1024xf32> to tensor<1024xf16> loc("k.py":5:1)
%g = arith.extf %h : tensor<1024xf16> to tensor<1024xf32> loc("k.py":6:1)
%s = arith.addf %a, %g : tensor<1024xf32>
"""
    measured = measure(INDEX + text + STORE.format("%s"))
    assert measured.unified_buffer == 3 * TILE  # the halves keep the place of what they were made from
    assert [(tile.bytes, str(tile.line)) for tile in measured.largest] == [
        (TILE, "k.py:3:1"),
        (TILE, "k.py:4:1"),
        (TILE, "k.py:6:1"),
    ]
