"""What is done to TTIR before code is generated: one function, without what nobody needs."""

from __future__ import annotations

import pytest

from inductor_npu.simulator.triton_backend.ttir.ir import Module
from inductor_npu.simulator.triton_backend.ttir.parser import parse
from inductor_npu.simulator.triton_backend.ttir.passes import RecursionNotSupportedError, simplify

TWICE = """
tt.func private @twice(%a: f32) -> f32 attributes {noinline = true} {
  %b = arith.addf %a, %a : f32 loc("library.py":1:1)
  tt.return %b : f32
}"""


def simplified(*lines: str, functions: str = "") -> Module:
    body = "\n".join(lines)
    kernel = f"tt.func public @k(%p: !tt.ptr<f32>, %n: i32, %x: f32) {{\n{body}\ntt.return\n}}"
    module = parse(f"module {{\n{kernel}{functions}\n}}\n")
    simplify(module)
    return module


def names(module: Module) -> list[str]:
    return [op.name for op in module.kernel.body.walk()]


def test_calls_are_inlined() -> None:
    module = simplified(
        '%y = tt.call @twice(%x) : (f32) -> f32 loc("user.py":7:3)',
        "%z = tt.call @twice(%y) : (f32) -> f32",
        "tt.store %p, %z : !tt.ptr<f32>",
        functions=TWICE,
    )
    assert names(module) == ["arith.addf", "arith.addf", "tt.store", "tt.return"]
    first, second, store, _ = module.kernel.body.ops
    assert second.operands == [first.result] * 2 and store.operands[1] is second.result
    assert str(first.line) == "user.py:7:3", "the line is the caller's"
    assert list(module.functions) == ["k"]


def test_calls_in_loops_and_in_callees_are_inlined() -> None:
    outer = (
        TWICE
        + """
tt.func private @four(%a: f32) -> f32 {
  %b = tt.call @twice(%a) : (f32) -> f32
  %c = tt.call @twice(%b) : (f32) -> f32
  tt.return %c : f32
}"""
    )
    module = simplified(
        "%y = tt.call @twice(%x) : (f32) -> f32",
        "%one = arith.constant 1 : i32",
        "%r = scf.for %i = %one to %n step %one iter_args(%acc = %y) -> (f32)  : i32 {",
        "  %q = tt.call @four(%acc) : (f32) -> f32",
        "  %s = arith.mulf %q, %y : f32",
        "  scf.yield %s : f32",
        "}",
        "tt.store %p, %r : !tt.ptr<f32>",
        functions=outer,
    )
    assert names(module).count("arith.addf") == 3 and "tt.call" not in names(module)
    first, _, loop, *_ = module.kernel.body.ops
    assert loop.operands[3] is first.result
    *_, product, ending = loop.regions[0].ops
    assert product.operands[1] is first.result and ending.operands == [product.result]


def test_a_function_with_a_loop_is_copied_with_its_region() -> None:
    looping = """
tt.func private @f(%a: f32, %m: i32) -> f32 {
  %one = arith.constant 1 : i32
  %r = scf.for %i = %one to %m step %one iter_args(%acc = %a) -> (f32)  : i32 {
    %s = arith.addf %acc, %a : f32
    scf.yield %s : f32
  }
  tt.return %r : f32
}"""
    module = simplified(
        "%y = tt.call @f(%x, %n) : (f32, i32) -> f32",
        "%z = tt.call @f(%y, %n) : (f32, i32) -> f32",
        "tt.store %p, %z : !tt.ptr<f32>",
        functions=looping,
    )
    loops = [op for op in module.kernel.body.ops if op.name == "scf.for"]
    assert loops[0].regions[0].arguments[1] is not loops[1].regions[0].arguments[1]
    assert loops[1].regions[0].ops[0].operands == [loops[1].regions[0].arguments[1], loops[0].result]


def test_recursion_is_refused() -> None:
    endless = "\ntt.func private @f(%a: f32) -> f32 {\n%b = tt.call @f(%a) : (f32) -> f32\ntt.return %b : f32\n}"
    with pytest.raises(RecursionNotSupportedError, match="function f calls itself"):
        simplified("%y = tt.call @f(%x) : (f32) -> f32", "tt.store %p, %y : !tt.ptr<f32>", functions=endless)


def test_what_nobody_uses_goes() -> None:
    module = simplified(
        "%a = tt.load %p : !tt.ptr<f32>",
        "%b = arith.addf %a, %x : f32",
        "%c = arith.cmpi slt, %n, %n : i32",
        "scf.if %c {",
        "  %d = arith.addf %x, %x : f32",
        "}",
    )
    assert names(module) == ["tt.return"]


def test_what_has_an_effect_stays() -> None:
    module = simplified(
        "%a = tt.load %p {isVolatile = true} : !tt.ptr<f32>",
        "%b = tt.atomic_rmw fadd, acq_rel, gpu, %p, %x : (!tt.ptr<f32>, f32) -> f32",
        "%c = arith.cmpi slt, %n, %n : i32",
        "scf.if %c {",
        "  tt.store %p, %x : !tt.ptr<f32>",
        "}",
    )
    assert names(module) == ["tt.load", "tt.atomic_rmw", "arith.cmpi", "scf.if", "tt.store", "scf.yield", "tt.return"]


def test_barriers_go_because_one_thread_runs_a_program() -> None:
    assert names(simplified("gpu.barrier", "ttg.barrier all")) == ["tt.return"]
