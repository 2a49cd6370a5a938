"""Random programs: a few of them, those that once went wrong, and whether the fuzzer would see it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import typer
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._inductor.utils import fresh_cache
from typer.testing import CliRunner

from fuzz import __main__ as fuzz_main
from fuzz import search as search_module
from fuzz.case import LAYOUTS, Case, Input
from fuzz.check import check, observe
from fuzz.draft import Draft, Rounding
from fuzz.generator import cases
from fuzz.search import MOST_TRIES, Search
from fuzz.statements.pointwise import divided, function, kinked
from fuzz.statements.reductions import everything
from fuzz.vectors import WIDTHS
from inductor_npu.simulator.triton_backend import codegen

FOUND = sorted((Path(__file__).parent / "found").glob("*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_random_programs_do_what_they_do_in_eager(seed: int, tmp_path: Path) -> None:
    search = Search("npu", tmp_path / "running.py", 300)
    search.run(seed, 12)
    assert search.failure is None, f"{search.failure.why}\n{search.failure.text}"


@pytest.mark.slow
@pytest.mark.parametrize("path", FOUND, ids=lambda path: path.stem)
def test_programs_that_once_went_wrong(path: Path) -> None:
    assert check(Case.read(path)) == ""


@settings(max_examples=30, deadline=None)
@given(cases())
def test_a_program_is_kept_as_a_file(case: Case) -> None:
    assert Case.of(case.text) == case


@pytest.mark.parametrize("statement", [function, divided, kinked, everything])
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_where_gradients_are_taken_what_was_rounded_gets_no_kink(
    statement: Callable[[Draft], None], data: st.DataObject
) -> None:
    draft = Draft(data.draw, gradients=True)
    exact = draft.input(Input("float32", (33,), values="normal"))
    draft.add(f"{exact}.mean(0, keepdim=True)", [exact], Rounding.ALWAYS)
    statement(draft)
    rounded, line = draft.body[0].split()[0], draft.body[-1].partition("=")[2]
    kinks = (".abs()", "hypot", "norm", "relu", "clamp", "sign(", "hardtanh", "threshold")
    assert draft.body[-1] == draft.body[0] or not (rounded in line and any(kink in line for kink in kinks))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_keep_shape_and_values(layout: str) -> None:
    plain, laid_out = (Input("int32", (4, 3, 5), each, seed=1).make() for each in ("contiguous", layout))
    assert laid_out.shape == plain.shape
    assert laid_out.is_contiguous() == (layout == "contiguous")
    if layout != "expanded":
        assert torch.equal(laid_out, plain)


def test_inputs_that_eager_and_compiled_code_get_have_the_strides_of_their_layout() -> None:
    strides = []
    case = Case((Input("float32", (4, 6), "every second"),), ("return (x0 + 1,)",))
    program = case.program()
    for device in ("cpu", "npu"):
        seen = observe(lambda x: strides.append(x.stride()) or program(x), list(case.arguments()), False, device)
        assert torch.equal(seen.results[0].cpu(), next(iter(case.arguments())) + 1)
    assert strides == [(12, 2), (12, 2)]


@pytest.mark.slow
def test_a_failing_program_is_made_small(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        search_module,
        "check",
        lambda case, device, elsewhere: "results: 1" if device == "npu" and "sin(" in case.text else "",
    )
    search = Search("npu", tmp_path / "running.py", 60)
    search.run(0, 200)
    assert search.failure is not None and search.failure.why == "results: 1"
    assert len(Case.of(search.failure.text).body) <= 3
    assert search._tries <= MOST_TRIES + 1


def other_values(x, results):
    return tuple(result * 1.001 for result in results)


def other_gradients(x, results):
    return tuple(result + (x - x.detach()) * 0.01 for result in results)


def other_writes(x, results):
    x.detach().add_(1)
    return results


def copies(x, results):
    return tuple(result.clone() for result in results)


WRONG = {
    "results": (other_values, "return (torch.sin(x0),)"),
    "gradients": (other_gradients, "return (torch.sin(x0),)"),
    "inputs": (other_writes, "return (torch.sin(x0),)"),
    "(result, input) that share memory": (copies, "return (x0.view(-1),)"),
}


@pytest.mark.parametrize("factor", [0, 1])
def test_no_gradient_may_be_zeros_but_nothing_else(factor: int, monkeypatch: pytest.MonkeyPatch) -> None:
    inputs = (Input("float32", (3,), values="normal"), Input("float32", (3,), values="normal"))
    case = Case(inputs, ("return (torch.sin(x0),)",), gradients=True)

    def with_gradient(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return (torch.sin(x) + factor * (y - y.detach()),)

    monkeypatch.setattr(torch, "compile", lambda program, dynamic: with_gradient)
    assert check(case).partition(":")[0] == ("gradients" if factor else "")


@pytest.mark.parametrize("what", WRONG)
def test_what_is_compiled_wrongly_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, body = WRONG[what]
    case = Case((Input("float32", (3, 5), values="normal"),), (body,), gradients=what == "gradients")
    assert check(case) == ""
    monkeypatch.setattr(torch, "compile", lambda program, dynamic: lambda x: wrong(x, program(x)))
    assert check(case).startswith(f"{what}: ")


@pytest.mark.parametrize(("dynamic", "more", "as_arguments"), [(True, 2, True), (False, 2, None), (False, 0, False)])
def test_a_second_call_with_other_sizes_is_held_against_eager_too(
    dynamic: bool, more: int, as_arguments: bool | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def compile_wrongly(program: Callable[..., tuple[torch.Tensor, ...]], dynamic: bool | None) -> Any:
        asked.append(dynamic)
        return lambda x: tuple(result + (x.shape[0] > 3) for result in program(x))

    monkeypatch.setattr(torch, "compile", compile_wrongly)
    case = Case((Input("float32", (3, 5)),), ("return (x0 * 2,)",), dynamic=dynamic, more=more)
    why = check(case)
    assert why.startswith("results: of the second call, ") if more else why == ""
    assert asked == [as_arguments]


def test_eager_need_not_do_the_second_call() -> None:
    case = Case((Input("float32", (4,)),), ("return (x0.reshape(2, 2),)",), more=1)
    assert check(case, "cpu") == ""


@pytest.mark.parametrize("bits", [128, 512])
def test_code_is_made_for_vectors_of_the_width_that_a_program_names(bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, host = [], codegen.host_options()
    generate = codegen.generate_kernel

    def noted(module: Any, options: codegen.CodegenOptions) -> Any:
        seen.append((options.vector_bits, options.registers))
        return generate(module, options)

    monkeypatch.setattr(codegen, "generate_kernel", noted)
    monkeypatch.setenv("TRITON_ALWAYS_COMPILE", "1")
    body = ("v3 = x0[..., x1] + x0[..., x2]", "return (v3,)")
    index = Input("int64", (5,), values="ends", bound=7)
    case = Case((Input("float32", (3, 7), values="normal"), index, index), body, vectors=bits)
    with fresh_cache():
        assert check(Case.of(case.text)) == ""
    assert set(seen) == {(bits, 32 if bits == 512 else 16)}
    assert codegen.host_options() == host


def test_each_process_has_the_next_width_of_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[int] = set()
    monkeypatch.setattr(search_module, "check", lambda case, device, elsewhere: seen.add(case.vectors) or "")
    monkeypatch.setattr(torch, "set_num_threads", lambda number: None)
    for number in range(4):
        answers = os.open(os.devnull, os.O_WRONLY)
        arguments = ["search", str(number), "1", "npu", str(tmp_path / "running.py"), "60", str(answers)]
        monkeypatch.setattr(sys, "argv", arguments)
        search_module.main()
    assert seen == set(WIDTHS) == {0, 128, 256, 512}


def test_what_stock_inductor_gets_wrong_alike_is_counted_but_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search_module, "check", lambda case, device, elsewhere: f"results: off by 1 on {device}")
    search = Search("npu", tmp_path / "running.py", 60)
    search.run(0, 3)
    assert search.failure is None
    assert search.as_stock >= 1


@pytest.mark.parametrize("dtype", ["int64", "int32"])
def test_an_index_without_dimensions_does_not_break_a_graph_of_the_cpu_if_it_is_of_int64(dtype: str) -> None:
    torch._dynamo.utils.counters.clear()
    compiled = torch.compile(lambda x, index: x[index] + 1, dynamic=True, backend="eager")
    assert compiled(torch.zeros(4, 5), Input(dtype, (), values="index", bound=4).make()).shape == (5,)
    assert bool(torch._dynamo.utils.counters["graph_break"]) == (dtype == "int32")


def test_what_goes_wrong_in_stock_inductor_where_other_devices_break_the_graph_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = torch.compile  # AOTAutograd fails before Inductor would write kernels, in C++ for the CPU
    monkeypatch.setattr(torch, "compile", lambda program, dynamic: whole(program, dynamic=dynamic, backend="aot_eager"))
    inputs = (Input("float32", (4, 5), values="normal"), Input("int64", (), values="index", bound=4))
    # PyTorch's AOTAutograd refuses an argument that is written, and another that shares its memory, of dynamic sizes.
    body = ("v1 = x0.detach()", "v2 = x0[x1]", "x0.add_(1)", "return (v1 + 1,)")
    search = Search("npu", tmp_path / "running.py", 60)
    assert check(Case(inputs, body, dynamic=True), "cpu") == ""
    assert search.why(Case(inputs, body, dynamic=True)) == ""
    assert search.as_stock == 1


def test_what_stock_inductor_gets_wrong_in_an_operator_of_other_devices_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def check(case: Case, device: str, elsewhere: bool) -> str:
        return "" if device == "cpu" and not elsewhere else "InductorError: of bounds"

    monkeypatch.setattr(search_module, "check", check)
    body = ("return (wider(torch.abs, x0 > 0, within=uint8),)",)
    search = Search("npu", tmp_path / "running.py", 60)
    assert search.why(Case((Input("float32", (4,)),), body)) == ""
    assert search.why(Case((Input("float32", (4,)),), ("return (torch.abs(x0),)",))) == "InductorError: of bounds"
    assert search.as_stock == 1


def test_the_operators_of_other_devices_run_as_they_are_where_that_is_asked_for() -> None:
    body = ("return (wider(lambda x: (seen.append(x.dtype), x)[1], x0, within=float64),)",)
    case = Case((Input("float16", (4,)),), body)
    seen: list[torch.dtype] = []
    for elsewhere in (False, True):
        program = case.program(elsewhere=elsewhere)
        program.__globals__["seen"] = seen
        assert program(next(case.arguments()))[0].dtype == torch.float16
    assert seen == [torch.float64, torch.float16]


@pytest.mark.slow  # another interpreter imports all of it
def test_what_libraries_print_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('a library says hello')\n")
    root = Path(__file__).parents[2]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (tmp_path, root))))
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")  # it is not compiling that is asked for here
    answers: list[dict[str, int]] = []
    assert fuzz_main._run(0, 2, "npu", 300, tmp_path, answers.append) is None
    assert [answer["checked"] for answer in answers] == [1, 2]


def test_a_process_without_an_answer_does_not_end_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(number: int, *_others: object) -> None:
        if number == 0:
            raise RuntimeError("ended with status 1")
        seen.append(number)

    seen: list[int] = []
    monkeypatch.setattr(fuzz_main, "_run", run)
    app = typer.Typer()
    app.command()(fuzz_main.main)
    options = ["--programs", "180", "--device", "cpu", "--found", str(tmp_path)]
    result = CliRunner().invoke(app, options)
    assert result.exit_code == 1
    assert sorted(seen) == [1, 2]
    assert "lost: seed 0: RuntimeError: ended with status 1" in result.output
