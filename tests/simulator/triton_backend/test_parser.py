"""TTIR's text as data: what each form of MLIR's syntax becomes."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from inductor_npu.simulator.triton_backend.ttir.ir import (
    Block,
    Dense,
    Op,
    PointerType,
    ScalarType,
    SourceLine,
    TensorDescType,
    TensorType,
)
from inductor_npu.simulator.triton_backend.ttir.parser import ParseError, parse

F32, I32, I1 = ScalarType("f32"), ScalarType("i32"), ScalarType("i1")
TEXTS = Path(__file__).parent / "ttir_texts"


def body(*lines: str, parameters: str = "%p: !tt.ptr<f32>, %n: i32, %x: f32", more: str = "") -> Block:
    """The block of a kernel that consists of `lines`."""
    text = "\n".join(
        [
            "module {",
            f"  tt.func public @k({parameters}) attributes {{noinline = false}} {{",
            *(f"    {line}" for line in lines),
            "    tt.return",
            "  }",
            more,
            "}",
        ]
    )
    return parse(text).kernel.body


def op(*lines: str, parameters: str = "%p: !tt.ptr<f32>, %n: i32, %x: f32") -> Op:
    """The last operation of `lines`."""
    return body(*lines, parameters=parameters).ops[-2]


# ---- the same kernel, as three versions of Triton print it


@pytest.mark.parametrize("version", ["3_2", "3_6", "3_9"])
def test_a_kernel_of_every_triton_parses(version: str) -> None:
    module = parse((TEXTS / f"softmax_{version}.ttir").read_text())

    kernel = module.kernel
    assert kernel.name == "softmax"
    assert [str(value.type) for value in kernel.body.arguments] == ["!tt.ptr<f32>", "!tt.ptr<f32>", "i32"]
    reduces = [inner for inner in kernel.body.ops if inner.name == "tt.reduce"]
    assert [reduce.attrs["axis"] for reduce in reduces] == [0, 0]
    assert [reduce.regions[0].ops[-1].name for reduce in reduces] == ["tt.reduce.return"] * 2
    load = next(inner for inner in kernel.body.ops if inner.name == "tt.load")
    assert load.attrs["evict"] == "evict_last"
    assert len(load.operands) == 3 and load.operands[2].owner.attrs["value"] == Dense(-math.inf)


@pytest.mark.parametrize("version", ["3_2", "3_6", "3_9"])
def test_lines_are_those_of_the_users_kernel(version: str) -> None:
    kernel = parse((TEXTS / f"softmax_{version}.ttir").read_text()).kernel

    lines = {inner.line.file for inner in kernel.body.walk() if inner.line}
    assert lines == {"/project/fix.py"}, "reductions are written in Triton's library, called from the user's file"
    (division,) = [inner for inner in kernel.body.walk() if inner.name == "arith.divf"]
    assert division.line.line == 9


# ---- types


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("f32", F32),
        ("!tt.ptr<i8>", PointerType(ScalarType("i8"))),
        ("!tt.ptr<f32, 1>", PointerType(F32)),
        ("tensor<4x8xf32>", TensorType((4, 8), F32)),
        ("tensor<4x!tt.ptr<bf16>>", TensorType((4,), PointerType(ScalarType("bf16")))),
        ("tensor<f32>", TensorType((), F32)),
        ("tensor<8xf8E4M3FN>", TensorType((8,), ScalarType("f8E4M3FN"))),
        ("!tt.ptr<tensor<4x8xf16>>", PointerType(TensorType((4, 8), ScalarType("f16")))),
        ("!tt.tensordesc<tensor<4x8xf16>>", TensorDescType(TensorType((4, 8), ScalarType("f16")))),
        ("!tt.tensordesc<4x8xf16>", TensorDescType(TensorType((4, 8), ScalarType("f16")))),
    ],
)
def test_types(text: str, type_: object) -> None:
    (argument,) = body(parameters=f"%a: {text}").arguments
    assert argument.type == type_


def test_types_print_as_mlir_does() -> None:
    assert str(TensorType((4, 8), PointerType(F32))) == "tensor<4x8x!tt.ptr<f32>>"


# ---- constants


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("true", True),
        ("false", False),
        ("42 : i32", 42),
        ("-7 : i64", -7),
        ("1.500000e+00 : f32", 1.5),
        ("-2.0 : f16", -2.0),
        ("0x7F800000 : f32", math.inf),
        ("0xFF80 : bf16", -math.inf),
        ("0xFC00 : f16", -math.inf),
        ("0x7FF0000000000000 : f64", math.inf),
        ("dense<1.0> : tensor<4xf32>", Dense(1.0)),
        ("dense<true> : tensor<4xi1>", Dense(True)),
        ("dense<0xFF800000> : tensor<4xf32>", Dense(-math.inf)),
        ("dense<[1, -2, 3]> : tensor<3xi32>", Dense((1, -2, 3))),
        ("dense<[[1, 2], [3, 4]]> : tensor<2x2xi32>", Dense((1, 2, 3, 4))),
        ('dense<"0x0100000002000000FFFFFFFF"> : tensor<3xi32>', Dense((1, 2, -1))),
        ('dense<"0x0000803F"> : tensor<8xf32>', Dense(1.0)),
        ('dense<"0x05"> : tensor<4xi1>', Dense((True, False, True, False))),
    ],
)
def test_constants(text: str, value: object) -> None:
    constant = op(f"%c = arith.constant {text}")
    assert constant.attrs["value"] == value
    assert type(constant.attrs["value"]) is type(value)


def test_a_nan_is_read_from_its_bits() -> None:
    assert math.isnan(op("%c = arith.constant 0x7FC00000 : f32").attrs["value"])


def test_a_constant_true_is_an_i1() -> None:
    assert op("%c = arith.constant true").result.type == I1


# ---- results: names, numbers, types


@pytest.mark.parametrize(
    ("lines", "result"),
    [
        (["%r = arith.addf %x, %x fastmath<fast> : f32"], "f32"),
        (["%r = arith.cmpi slt, %n, %n : i32"], "i1"),
        (["%t = tt.splat %n : i32 -> tensor<4xi32>", "%r = arith.cmpi ult, %t, %t : tensor<4xi32>"], "tensor<4xi1>"),
        (["%r = tt.load %p : !tt.ptr<f32>"], "f32"),
        (["%t = tt.splat %p : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>", "%r = tt.load %t : tensor<4x!tt.ptr<f32>>"],
         "tensor<4xf32>"),
        (["%r = tt.addptr %p, %n : !tt.ptr<f32>, i32"], "!tt.ptr<f32>"),
        (["%c = arith.constant true", "%r = arith.select %c, %x, %x : f32"], "f32"),
        (["%c = arith.constant dense<true> : tensor<4xi1>", "%t = tt.splat %x : f32 -> tensor<4xf32>",
          "%r = arith.select %c, %t, %t : tensor<4xi1>, tensor<4xf32>"], "tensor<4xf32>"),
        (["%r = arith.extsi %n : i32 to i64"], "i64"),
        (["%r = tt.get_program_id z : i32"], "i32"),
        (["%r = tt.make_range {end = 8 : i32, start = 0 : i32} : tensor<8xi32>"], "tensor<8xi32>"),
        (["%r = tt.ptr_to_int %p : !tt.ptr<f32> -> i64"], "i64"),
        (["%r = ub.poison : tensor<4xf32>"], "tensor<4xf32>"),
        (["%c = arith.constant 1 : i64",
          "%r = tt.make_tensor_ptr %p, [%c], [%c], [%n] {order = array<i32: 0>} : <tensor<4xf32>>"],
         "!tt.ptr<tensor<4xf32>>"),
        (["%c = arith.constant 1 : i64", "%r = tt.make_tensor_descriptor %p, [%n], [%c] : <f32>, <tensor<4xf32>>"],
         "!tt.tensordesc<tensor<4xf32>>"),
    ],
)  # fmt: skip
def test_result_types(lines: list[str], result: str) -> None:
    made = op(*lines)
    assert str(made.result.type) == result
    assert made.result.name == "%r" and made.result.owner is made


def test_several_results_under_one_name() -> None:
    block = body("%r:2 = arith.mulsi_extended %n, %n : i32", "%s = arith.addi %r#1, %r#0 : i32")
    product, total = block.ops[:2]
    assert [value.type for value in product.results] == [I32, I32]
    assert total.operands == [product.results[1], product.results[0]]


def test_several_results_with_names_of_their_own() -> None:
    split = op(
        "%j = tt.splat %x : f32 -> tensor<4x2xf32>",
        "%left, %right = tt.split %j : tensor<4x2xf32> -> tensor<4xf32>",
    )
    assert [str(value) for value in map(repr, split.results)] == ["%left: tensor<4xf32>", "%right: tensor<4xf32>"]


# ---- attributes


def test_keywords_become_attributes() -> None:
    pointers = "%t = tt.splat %p : !tt.ptr<f32> -> tensor<4x!tt.ptr<f32>>"
    values = "%v = tt.splat %x : f32 -> tensor<4xf32>"
    mask = "%m = arith.constant dense<true> : tensor<4xi1>"
    load = op(pointers, mask, values, "%r = tt.load %t, %m, %v cacheModifier = cg evictionPolicy = evict_last "
              "{isVolatile = true} : tensor<4x!tt.ptr<f32>>")  # fmt: skip
    assert load.attrs == {"cache": "cg", "evict": "evict_last", "isVolatile": True}
    assert [value.name for value in load.operands] == ["%t", "%m", "%v"]
    rmw = op(pointers, mask, values, "%r = tt.atomic_rmw fadd, acq_rel, gpu, %t, %v, %m : "
             "(tensor<4x!tt.ptr<f32>>, tensor<4xf32>, tensor<4xi1>) -> tensor<4xf32>")  # fmt: skip
    assert rmw.attrs == {"rmw_op": "fadd", "sem": "acq_rel", "scope": "gpu"}
    assert op("%r = arith.cmpf une, %x, %x : f32").attrs == {"predicate": "une"}
    assert op("%r = tt.get_num_programs y : i32").attrs == {"axis": 1}
    assert op("%r = arith.addi %n, %n overflow<nsw, nuw> : i32").attrs == {"overflowFlags": "nsw, nuw"}
    assert op("%r = tt.fp_to_fp %x, rounding = rtz : f32 -> f16").attrs == {"rounding": "rtz"}
    assert op("%r = tt.clampf %x, %x, %x, propagateNan = all : f32").attrs == {"propagateNan": "all"}


def test_cache_policy_of_newer_tritons() -> None:
    policy = "#tt.cache_policy<cache_modifier = cg, eviction_policy = evict_first>"
    load = op(f"%r = tt.load %p {{cachePolicy = {policy}}} : !tt.ptr<f32>")
    assert load.attrs == {"cache": "cg", "evict": "evict_first"}


def test_a_dots_precision_has_a_default() -> None:
    setup = ["%a = tt.splat %x : f32 -> tensor<16x16xf32>"]
    plain = "%r = tt.dot %a, %a, %a : tensor<16x16xf32> * tensor<16x16xf32> -> tensor<16x16xf32>"
    assert op(*setup, plain).attrs["inputPrecision"] == "ieee"
    assert op(*setup, plain.replace("%a :", "%a, inputPrecision = tf32 :")).attrs["inputPrecision"] == "tf32"


def test_scales_of_a_scaled_dot_come_last() -> None:
    parameters = "%a: tensor<4x4xi8>, %s: tensor<4x1xi8>, %b: tensor<4x4xi8>, %c: tensor<4x4xf32>"
    dot = op(
        "%r = tt.dot_scaled %a, %b scale %s, %c lhs = e4m3 rhs = e5m2 {fastMath = false} : "
        "tensor<4x4xi8> * tensor<4x4xi8>, tensor<4x1xi8> -> tensor<4x4xf32>",
        parameters=parameters,
    )
    assert [value.name for value in dot.operands] == ["%a", "%b", "%c", "%s"]
    assert (dot.attrs["a_scale"], dot.attrs["b_scale"]) == (False, True)
    assert (dot.attrs["lhs"], dot.attrs["rhs"]) == ("e4m3", "e5m2")


def test_strings_are_unescaped() -> None:
    printed = op(r'tt.print " x \22quoted\22: " {hex = false, isSigned = array<i32: 1, 0>} : %n, %x : i32, f32')
    assert printed.attrs == {"prefix": ' x "quoted": ', "hex": False, "isSigned": [1, 0]}
    assert [value.name for value in printed.operands] == ["%n", "%x"]
    checked = op(r"%c = arith.constant true", r'tt.assert %c, "a\\b \E2\89\A4\0A" : i1')
    assert checked.attrs["message"] == "a\\b ≤\n"


def test_inline_assembly_parses() -> None:
    inline = op(
        '%r = tt.elementwise_inline_asm "mov $0, $1;" {constraints = "=r,r", packed_element = 1 : i32, pure = true} '
        "%n : i32 -> i32"
    )
    assert inline.attrs["asm_string"] == "mov $0, $1;" and inline.attrs["pure"] is True


def test_attributes_of_arguments() -> None:
    text = (TEXTS / "softmax_3_6.ttir").read_text()
    assert parse(text).kernel.argument_attrs == [{"tt.divisibility": 16}, {}, {}]


# ---- regions


def test_a_loop() -> None:
    loop = op(
        "%c = arith.constant 1 : i32",
        "%r:2 = scf.for %i = %c to %n step %c iter_args(%a = %x, %b = %n) -> (f32, i32)  : i32 {",
        "  scf.yield %a, %i : f32, i32",
        "} {tt.num_stages = 3 : i32}",
    )
    assert [value.name for value in loop.operands] == ["%c", "%n", "%c", "%x", "%n"]
    assert [repr(value) for value in loop.regions[0].arguments] == ["%i: i32", "%a: f32", "%b: i32"]
    assert loop.attrs == {"tt.num_stages": 3}
    assert loop.results[1].name == "%r#1"


def test_a_loop_without_results_ends_in_a_yield_too() -> None:
    loop = op("%c = arith.constant 1 : i32", "scf.for unsigned %i = %c to %n step %c  : i32 {", "  gpu.barrier", "}")
    assert loop.attrs == {"unsigned": True}
    assert [inner.name for inner in loop.regions[0].ops] == ["gpu.barrier", "scf.yield"]


def test_a_condition() -> None:
    branch = op(
        "%c = arith.cmpi eq, %n, %n : i32",
        "%r = scf.if %c -> (f32) {",
        "  scf.yield %x : f32",
        "} else {",
        "  %y = arith.negf %x : f32",
        "  scf.yield %y : f32",
        "}",
    )
    assert len(branch.regions) == 2 and branch.regions[1].ops[0].name == "arith.negf"


def test_a_while_loop() -> None:
    loop = op(
        "%r:2 = scf.while (%a = %x, %b = %n) : (f32, i32) -> (f32, i32) {",
        "  %c = arith.cmpi slt, %b, %n : i32",
        "  scf.condition(%c) %a, %b : f32, i32",
        "} do {",
        "^bb0(%d: f32, %e: i32):",
        "  scf.yield %d, %e : f32, i32",
        "}",
    )
    before, after = loop.regions
    assert before.ops[-1].name == "scf.condition" and before.ops[-1].operands[0] is before.ops[0].result
    assert after.ops[-1].operands == after.arguments


def test_reductions_of_several_tensors() -> None:
    reduce = op(
        "%v = tt.splat %x : f32 -> tensor<4xf32>",
        "%i = tt.make_range {end = 4 : i32, start = 0 : i32} : tensor<4xi32>",
        '%r:2 = "tt.reduce"(%v, %i) <{axis = 0 : i32}> ({',
        "^bb0(%a: f32, %b: i32, %c: f32, %d: i32):",
        "  tt.reduce.return %a, %b : f32, i32",
        "}) : (tensor<4xf32>, tensor<4xi32>) -> (f32, i32)",
    )
    assert [value.type for value in reduce.results] == [F32, I32]
    assert len(reduce.regions[0].arguments) == 4


def test_calls_and_private_functions() -> None:
    header = '  tt.func private @"f(1, 2)"(%a: f32) -> (f32, f32) attributes {noinline = true} {'
    more = f"{header}\n    tt.return %a, %a : f32, f32\n  }}"
    call = body('%r:2 = tt.call @"f(1, 2)"(%x) : (f32) -> (f32, f32)', more=more).ops[0]
    assert call.attrs == {"callee": "f(1, 2)"} and len(call.results) == 2


# ---- branches between blocks: `return` inside `if`


def test_an_early_return_becomes_a_condition() -> None:
    block = body(
        "%c = arith.cmpi slt, %n, %n : i32",
        "cf.cond_br %c, ^bb1, ^bb2",
        "^bb1:  // pred: ^bb0",
        "tt.return",
        "^bb2:  // pred: ^bb0",
        "tt.store %p, %x : !tt.ptr<f32>",
    )
    assert [inner.name for inner in block.ops] == ["arith.cmpi", "scf.if", "tt.return"]
    then, otherwise = block.ops[1].regions
    assert [inner.name for inner in then.ops] == ["scf.yield"]
    assert [inner.name for inner in otherwise.ops] == ["tt.store", "scf.yield"]


def test_blocks_that_meet_again_run_once() -> None:
    block = body(
        "%c = arith.cmpi slt, %n, %n : i32",
        "cf.cond_br %c, ^bb1, ^bb2(%x : f32)",
        "^bb1:",
        "%y = arith.negf %x : f32",
        "cf.br ^bb2(%y : f32)",
        "^bb2(%z: f32):",
        "tt.store %p, %z : !tt.ptr<f32>",
    )
    assert [inner.name for inner in block.ops] == ["arith.cmpi", "scf.if", "tt.store", "tt.return"]
    branch, store = block.ops[1:3]
    assert store.operands[1] is branch.result
    assert [region.ops[-1].operands[0].name for region in branch.regions] == ["%y", "%x"]


def test_a_return_deep_inside_guards_what_follows() -> None:
    block = body(
        "%c = arith.cmpi slt, %n, %n : i32",
        "cf.cond_br %c, ^bb1, ^bb3",
        "^bb1:",
        "%d = arith.cmpi sgt, %n, %n : i32",
        "cf.cond_br %d, ^bb4, ^bb2",
        "^bb2:",
        "gpu.barrier",
        "cf.br ^bb3",
        "^bb3:",
        "tt.store %p, %x : !tt.ptr<f32>",
        "cf.br ^bb4",
        "^bb4:",
    )
    assert [inner.name for inner in block.walk()].count("tt.store") == 1
    outer, guard = [inner for inner in block.ops if inner.name == "scf.if"]
    assert guard.operands == [outer.result], "the store runs only if control arrived"
    assert guard.regions[0].ops[0].name == "tt.store"


def test_blocks_that_nothing_branches_to_disappear() -> None:
    block = body("tt.return", "^bb1:  // no predecessors", "%y = ub.poison : f32")
    assert [inner.name for inner in block.ops] == ["tt.return"]


def test_a_cycle_of_branches_is_refused() -> None:
    with pytest.raises(ParseError, match="cycle"):
        body("cf.br ^bb1", "^bb1:", "cf.br ^bb1", "^bb2:")


# ---- what is not known


def test_an_unknown_operation_in_regular_form_parses() -> None:
    unknown = op("%r = new.thing fast %x, [%n, %n] {a = 1 : i32, unit} : f32, i32 -> f16")
    assert unknown.name == "new.thing"
    assert unknown.attrs == {"words": ["fast"], "a": 1, "unit": True}
    assert [value.name for value in unknown.operands] == ["%x", "%n", "%n"]
    assert unknown.result.type == ScalarType("f16")


def test_an_unknown_operation_in_generic_form_parses() -> None:
    unknown = op('%r = "new.thing"(%x) <{a = [1, 2], t = f16}> {b = "s"} : (f32) -> f16')
    assert unknown.attrs == {"a": [1, 2], "t": ScalarType("f16"), "b": "s"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("%r = new.thing %x", "line 3: `new.thing` states no type"),
        ("%r = arith.addf %x, %missing : f32", "line 3: `%missing` is not a value"),
        ("%r = new.thing %x ! : f32", "`new.thing`: unexpected `!`"),
        ("%r = arith.addf %x, %x : strange", "line 3: not a type of TTIR: `strange`"),
        ("%r:2 = tt.load %p : !tt.ptr<f32> -> (f32, f32, f32)", "`tt.load` has 3 results, 2 are named"),
    ],
)
def test_errors_name_the_operation_and_the_line(line: str, message: str) -> None:
    with pytest.raises(ParseError) as caught:
        body(line)
    assert message in str(caught.value)
    assert line.strip() in str(caught.value)


# ---- locations


def location_of(table: str, location: str = "#loc9") -> SourceLine | None:
    text = f"module {{\n  tt.func public @k() {{\n    gpu.barrier loc({location})\n    tt.return\n  }}\n}}\n{table}\n"
    return parse(text).kernel.body.ops[0].line


@pytest.mark.parametrize(
    "table",
    [
        '#loc9 = loc("a.py":3:7)',
        '#loc1 = loc("a.py":3:7)\n#loc9 = loc("x"(#loc1))',
        '#loc1 = loc("lib.py":99:1)\n#loc2 = loc("a.py":3:7)\n#loc9 = loc(callsite(#loc1 at #loc2))',
        ('#loc1 = loc("l.py":9:1)\n#loc2 = loc("a.py":3:7)\n#loc3 = loc(callsite(#loc1 at #loc2))'
         "\n#loc9 = loc(callsite(#loc1 at #loc3))"),
        '#loc1 = loc("a.py":3:7)\n#loc9 = loc(callsite(#loc1 at unknown))',
        '#loc1 = loc(unknown)\n#loc2 = loc("a.py":3:7)\n#loc9 = loc(fused[#loc1, #loc2])',
        '#loc9 = loc("y"(callsite("lib.py":1:1 at "x"("a.py":3:7))))',
    ],
)  # fmt: skip
def test_the_users_line_is_the_outermost_caller(table: str) -> None:
    assert location_of(table) == SourceLine("a.py", 3, 7)


def test_an_unknown_location_is_none() -> None:
    assert location_of("#loc9 = loc(unknown)") is None
    assert location_of("", "unknown") is None


def test_file_names_may_hold_anything() -> None:
    assert location_of(r'#loc9 = loc("dir (1)/\22a\22 at b.py":3:7)') == SourceLine('dir (1)/"a" at b.py', 3, 7)
