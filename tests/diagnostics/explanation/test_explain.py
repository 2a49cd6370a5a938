"""What `inductor_npu.explain` says of small programs, as data, and that it is what happened."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl

import inductor_npu
from inductor_npu import config
from inductor_npu.diagnostics.explanation.data import Arithmetic, Graph, Kernel, Pass
from inductor_npu.diagnostics.explanation.explanation import Explanation
from tests.cache.conftest import forget
from tests.processes import run_forked

pytestmark = [pytest.mark.compiled, pytest.mark.usefixtures("own_caches")]


@triton.jit
def _twice(x, out, size: tl.constexpr):
    index = tl.arange(0, size)
    tl.store(out + index, tl.load(x + index) * 2)


def launch_twice(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    _twice[(1,)](x, out, 64)
    return out + 1


def line_with(text: str, function: Callable[..., object]) -> int:
    """The number of the line of `function` that contains `text`."""
    lines, first = inspect.getsourcelines(function)
    (place,) = (first + offset for offset, line in enumerate(lines) if text in line)
    return place


def on_npu(*shape: int) -> torch.Tensor:
    return torch.linspace(-1, 1, torch.Size(shape).numel()).reshape(shape).to("npu")


# ---- graphs


def test_one_graph_of_one_kernel() -> None:
    def add(x, y):
        return x + y

    explained = inductor_npu.explain(add, on_npu(10, 100), on_npu(10, 100))
    (graph,) = explained.graphs
    assert (graph.function, graph.pass_, graph.found) == ("add", Pass.INFERENCE, False)
    assert graph.line is not None and graph.line.line == line_with("def add", add)
    (kernel,) = explained.kernels
    assert kernel.operators == ("aten.add",)
    assert [(line.file, line.line, line.text) for line in kernel.lines] == [
        (Path(__file__).name, line_with("return x + y", add), "return x + y")
    ]
    assert (explained.graph_breaks, explained.recompiles, explained.left_to_eager) == ((), (), ())


def test_a_fused_kernel_names_all_its_operators_and_lines() -> None:
    def fused(x):
        y = torch.sin(x)
        return torch.nn.functional.gelu(y) * x

    (kernel,) = inductor_npu.explain(fused, on_npu(64)).kernels
    assert kernel.operators == ("aten.sin", "aten.gelu", "aten.mul")
    assert [line.line for line in kernel.lines] == [line_with("sin", fused), line_with("gelu", fused)]


def test_a_backward_pass_is_a_graph_of_its_own_and_leaves_gradients_alone() -> None:
    x = on_npu(8, 32).requires_grad_()
    explained = inductor_npu.explain(lambda x: torch.softmax(x, -1) * 2, x, backward=True)
    assert [graph.pass_ for graph in explained.graphs] == [Pass.FORWARD, Pass.BACKWARD]
    assert all(graph.kernels for graph in explained.graphs)
    assert x.grad is None


def test_what_an_earlier_call_compiled_is_not_explained_again() -> None:
    compiled = torch.compile(lambda x: x * 3)
    assert inductor_npu.explain(compiled, on_npu(16)).happened
    again = inductor_npu.explain(compiled, on_npu(16))
    assert not again.happened
    assert "Nothing was compiled" in str(again)


# ---- breaks and recompiles


def test_a_graph_break_has_a_reason_and_the_users_line() -> None:
    def broken(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    explained = inductor_npu.explain(broken, on_npu(16))
    (found,) = explained.graph_breaks
    assert found.reason == "Call to `torch._dynamo.graph_break()`"
    assert "User-inserted graph break" in found.explanation
    assert found.line is not None
    assert (Path(found.line.file).name, found.line.line) == (Path(__file__).name, line_with("graph_break", broken))
    assert found.line.text == "torch._dynamo.graph_break()"
    assert len(explained.graphs) == 2


def test_a_branch_on_data_is_a_break_where_the_branch_is() -> None:
    def branching(x):
        if x.sum() > 0:
            return x + 1
        return x - 1

    (found,) = inductor_npu.explain(branching, on_npu(16)).graph_breaks
    assert "branching" in found.reason
    assert found.line is not None and found.line.line == line_with("if x.sum", branching)


def test_a_recompile_names_the_guard_that_failed() -> None:
    def scaled(x, scale):
        return x * scale

    compiled = torch.compile(scaled, dynamic=False)
    compiled(on_npu(16), 2)
    (again,) = inductor_npu.explain(compiled, on_npu(16), 3).recompiles
    assert again.function == "scaled"
    assert again.line is not None and again.line.line == line_with("def scaled", scaled)
    (guard,) = again.guards
    assert "scale" in guard and "2" in guard
    assert not guard.startswith("0/")


def test_a_size_that_changes_is_a_recompile_for_any_size() -> None:
    compiled = torch.compile(lambda x: x.cos())
    compiled(on_npu(16))
    explained = inductor_npu.explain(compiled, on_npu(100))
    (again,) = explained.recompiles
    assert "size mismatch at index 0. expected 16, actual 100" in again.guards[0]
    (kernel,) = explained.kernels
    assert (kernel.bytes_read, kernel.bytes_written) == (400, 400)
    assert "= 100" in kernel.sizes


def test_a_function_whose_limit_of_recompiles_is_reached_is_left_to_eager() -> None:
    def counted(x, number):
        return x + number

    with torch._dynamo.config.patch(recompile_limit=2), inductor_npu.record_explanation() as recorded:
        compiled = torch.compile(counted, dynamic=False)
        for number in range(4):
            compiled(on_npu(16), number)
    assert [each.function for each in recorded.explanation.recompiles] == ["counted", "counted"]
    (left,) = recorded.explanation.eager_functions
    assert left.function == "counted"
    assert "recompile" in left.reason


# ---- what is left to eager


def test_a_matrix_product_says_what_its_kernel_saves() -> None:
    explained = inductor_npu.explain(lambda x, y: torch.relu(x @ y), on_npu(16, 16), on_npu(16, 16))
    (kernel,) = explained.kernels
    own, apart = map(int, re.findall(r"\d+", kernel.product))
    assert 0 < own < apart
    assert explained.library_calls == ()


def test_a_matrix_product_of_doubles_is_a_librarys_and_not_left_to_eager() -> None:
    def product(x, y):
        return torch.relu(x @ y)

    explained = inductor_npu.explain(product, on_npu(16, 16).double(), on_npu(16, 16).double())
    (call,) = explained.library_calls
    assert (call.operator, call.calls) == ("extern_kernels.mm", 1)
    assert call.reason == "the cube cores do not multiply torch.float64"
    assert [line.line for line in call.lines] == [line_with("relu", product)]
    assert explained.left_to_eager == ()


def test_who_does_the_arithmetic() -> None:
    """As torch.utils.flop_counter counts it: the bias and the activation are none; a library's is its own share."""

    def mixed(x, weight, bias, image, filters):
        hidden = torch.nn.functional.gelu(torch.nn.functional.linear(x, weight, bias)).softmax(-1)
        return hidden, torch.nn.functional.conv2d(image, filters).double() @ image.double()[:, :1, :6, :6]

    inputs = on_npu(128, 64), on_npu(96, 64), on_npu(96), on_npu(2, 3, 8, 8), on_npu(1, 3, 3, 3)
    explained = inductor_npu.explain(mixed, *inputs)
    linear, convolution, doubles = 2 * 128 * 64 * 96, 2 * 2 * 6 * 6 * 27, 2 * 2 * 6 * 6 * 6
    assert explained.arithmetic == Arithmetic(linear, convolution + doubles, 0, (("convolution", 1), ("bmm", 1)))
    assert [kernel.operations for kernel in explained.kernels if kernel.operations] == [linear]
    assert explained.arithmetic.text() == "99.7% of 1.58 MFLOP in kernels, 0.3% in the library: convolution, bmm"
    assert explained.arithmetic.text() in str(explained)
    assert explained.to_json()["arithmetic"]["in_kernels"] == linear
    assert explained.graphs and "FLOP" not in str(inductor_npu.explain(torch.sin, on_npu(5)))


def test_the_arithmetic_of_attention_counts_each_product_of_the_graph_once() -> None:
    def attend(query, key, value):
        return torch.nn.functional.scaled_dot_product_attention(query, key, value, enable_gqa=True)

    def inputs():
        return [on_npu(2, heads, 64, 32).requires_grad_() for heads in (4, 2, 2)]

    product = 2 * 2 * 4 * 64 * 64 * 32
    for templates in ("all", "none"):
        torch.compiler.reset()
        with config.patch(templates=templates):
            forward, backward = inductor_npu.explain(attend, *inputs(), backward=True).graphs
        both = [[each.operations for each in graph.kernels if each.operations] for graph in (forward, backward)]
        assert both == ([[2 * product], [4 * product, product]] if templates == "all" else [[], []])
        called = [sum(call.operations for call in graph.library_calls) for graph in (forward, backward)]
        assert called == ([0, 0] if templates == "all" else [2 * product, 5 * product])


def test_attention_that_the_library_computes_says_why() -> None:
    """On the embedded NPU it is faster in training where blocks are mostly padding."""
    calls = inductor_npu.explain(
        lambda x: torch.nn.functional.scaled_dot_product_attention(x, x, x),
        on_npu(1, 2, 65, 16).requires_grad_(),
        backward=True,
    ).library_calls
    assert {call.reason for call in calls} == {"blocks would pad the scores of 65 queries and 65 keys to 3.9 times"}


@pytest.mark.slow
def test_attention_in_parts_says_so() -> None:
    """Dropout: random numbers for each score would take 29 times as long as the kernel of attention without them."""
    inputs = [on_npu(1, 2, 64, 16).requires_grad_() for _ in range(3)]
    explained = inductor_npu.explain(
        lambda *inputs: torch.nn.functional.scaled_dot_product_attention(*inputs, dropout_p=0.1), *inputs, backward=True
    )
    products = [kernel.product for kernel in explained.kernels if kernel.operations]
    assert len(products) == 6 and all("a part of scaled_dot_product_attention" in product for product in products)
    assert explained.arithmetic.in_library == 0


def test_arithmetic_in_words() -> None:
    assert Arithmetic().text() == ""
    assert Arithmetic(12_300_000_000).text() == "100% of 12.3 GFLOP in kernels"
    mostly = Arithmetic(10**15, 1, 10**12, (("convolution", 3), ("mm", 1)))
    assert mostly.text() == ("99.9% of 1.00 PFLOP in kernels, 0.1% in the library, 0.1% in eager: convolution (3), mm")


def test_an_operator_on_complex_numbers_is_left_to_eager_because_of_its_dtype() -> None:
    def rotated(x):
        return torch.exp(x)

    explained = inductor_npu.explain(rotated, on_npu(16).to(torch.complex64))
    (left,) = explained.left_to_eager
    assert left.operators == ("aten.exp",)
    assert "torch.complex64" in left.reason
    assert left.kernel is None
    assert [line.line for line in left.lines] == [line_with("torch.exp", rotated)]


def test_a_custom_operator_is_left_to_eager_because_nobody_can_look_into_it() -> None:
    @torch.library.custom_op("inductor_npu_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    (left,) = inductor_npu.explain(lambda x: twice(x) + 1, on_npu(16)).left_to_eager
    assert left.operators == ("inductor_npu_tests.twice",)
    assert "custom operator" in left.reason


@pytest.mark.filterwarnings("ignore::inductor_npu.errors.NpuWarning")
def test_a_kernel_that_does_not_compile_is_left_to_eager_with_the_compilers_words(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(name: str, source: str) -> Exception:
        return ValueError("no room for another sine")

    monkeypatch.setattr("inductor_npu.codegen.scheduling.npu_scheduling.compile_in_process", refuse)
    with inductor_npu.config.patch(strict=False):
        explained = inductor_npu.explain(lambda x: torch.sin(x) + 1, on_npu(16))
    (left,) = explained.left_to_eager
    assert left.operators == ("aten.sin", "aten.add")
    assert left.reason == "ValueError: no room for another sine"
    assert left.kernel is not None
    assert explained.kernels == ()


# ---- the CPU's part


@pytest.mark.slow
def test_a_kernel_for_the_cpu_has_operators_and_lines_and_moves_no_device_memory() -> None:
    def mixed(x, host):
        bias = (host * 2).sum(0)
        return x + bias.to("npu")

    explained = inductor_npu.explain(mixed, on_npu(8, 16), torch.ones(8, 16))
    on_cpu = [kernel for kernel in explained.kernels if kernel.on_cpu]
    assert {operator for kernel in on_cpu for operator in kernel.operators} == {"aten.mul", "aten.sum"}
    assert {line.line for kernel in on_cpu for line in kernel.lines} == {line_with("bias =", mixed)}
    assert not any(kernel.moves_unknown for kernel in explained.kernels)
    assert (explained.bytes_read, explained.bytes_written) == (4 * (8 * 16 + 16), 4 * 8 * 16)
    assert "2 kernels (1 on the CPU)" in str(explained)


# ---- bytes


@pytest.mark.parametrize(
    ("function", "shapes", "moved"),
    [
        (lambda x, y: x + y, [(10, 100), (10, 100)], (8000, 4000)),
        (lambda x, y: x + y, [(10, 100), (100,)], (4400, 4000)),
        (lambda x: x[:, ::2] * 2, [(10, 100)], (2000, 2000)),
        (lambda x: torch.softmax(x, -1), [(10, 100)], (4000, 4000)),
        (lambda x: x.sum(-1), [(10, 100)], (4000, 40)),
        (lambda x: x.add_(1), [(10, 100)], (4000, 4000)),
        (lambda x, y: torch.cat([x, y]) + 1, [(10, 100), (20, 100)], (12000, 12000)),
        (lambda x: torch.softmax(x.half().float() * 2, -1), [(10, 100)], (4000, 4000)),
        (lambda x: torch.rand_like(x) + torch.rand_like(x), [(10, 100)], (16, 4000)),
        (lambda x, y: torch.nn.functional.embedding(y.long() % 2, x), [(10, 100), (3,)], (1212, 1200)),
    ],
    ids=["add", "broadcast", "slice", "softmax", "sum", "in place", "cat", "on chip", "random", "gather"],
)
def test_bytes_of_small_programs(
    function: Callable[..., torch.Tensor], shapes: list[tuple[int, ...]], moved: tuple[int, int]
) -> None:
    explained = inductor_npu.explain(function, *(on_npu(*shape) for shape in shapes))
    assert (explained.bytes_read, explained.bytes_written) == moved


def test_a_kernel_that_a_user_wrote_is_named_with_the_place_where_it_is() -> None:
    explained = inductor_npu.explain(launch_twice, on_npu(64))
    (kernel,) = (each for each in explained.kernels if each.written_by_user)
    assert (kernel.operators, kernel.bytes_read, kernel.bytes_written) == ((), None, None)
    assert [(line.file, line.line) for line in kernel.lines] == [(Path(__file__).name, line_with("@triton", _twice.fn))]
    assert kernel.moves_unknown
    assert "at least 256 B read, 256 B written" in str(explained)


def test_what_makes_the_arguments_of_a_users_kernel_does_not_compute_it() -> None:
    def sine(x):
        out = torch.empty_like(x)
        _twice[(1,)](torch.sin(x), out, 64)
        return out

    (generated,) = (each for each in inductor_npu.explain(sine, on_npu(64)).kernels if not each.written_by_user)
    assert generated.operators == ("aten.sin",)


def test_a_branch_of_cond_computes_its_operators_and_not_cond() -> None:
    def branching(condition, x):
        return torch.cond(condition, lambda x: x.sin() + 1, lambda x: x.cos(), (x,))

    kernels = inductor_npu.explain(branching, torch.tensor(True), on_npu(64)).kernels
    assert {kernel.operators for kernel in kernels} == {("aten.sin", "aten.add"), ("aten.cos",)}


def test_seeds_of_random_numbers_are_no_library_call() -> None:
    assert inductor_npu.explain(lambda x: x + torch.rand_like(x), on_npu(64)).library_calls == ()


# ---- caches


def test_a_second_process_finds_graph_and_kernels_and_says_the_same_of_them() -> None:
    def function(x):
        return torch.sin(x) @ x + x

    first = inductor_npu.explain(function, on_npu(16, 16))
    forget()
    second = inductor_npu.explain(function, on_npu(16, 16))
    assert not first.graphs[0].found
    assert second.graphs[0].found
    assert second.kernels == first.kernels
    assert second.library_calls == first.library_calls
    assert (first.cache("AOTAutograd").found, second.cache("AOTAutograd").found) == (0, 1)
    assert (first.cache("npu kernels").missed, first.cache("npu kernels").found) == (len(first.kernels), 0)
    assert (second.cache("npu kernels").missed, second.cache("npu kernels").found) == (0, len(first.kernels))


def test_a_kernel_that_the_cache_has_not_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x):
        return torch.softmax(x, -1)

    def reasons() -> tuple[str, ...]:
        forget()
        return inductor_npu.explain(function, on_npu(16, 40)).cache("npu kernels").reasons

    assert reasons() == ("not compiled before",)
    assert reasons() == ()
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "0")
    assert reasons() == ("compiled before with another TRITON_DEFAULT_FP_FUSION (0 here, 1 there)",)


def test_settings_with_which_a_kernel_of_that_name_was_generated_are_why_it_is_another() -> None:
    def function(x):
        return torch.softmax(x, -1)

    inductor_npu.explain(function, on_npu(16, 40))
    forget()
    with inductor_npu.config.patch(strict=not inductor_npu.config.strict):
        (reason,) = inductor_npu.explain(function, on_npu(17, 40)).cache("npu kernels").reasons
    assert reason.startswith("one of that name was generated with another config.strict (")


def test_a_graph_that_is_kept_for_other_sizes_says_for_which() -> None:
    def longer_than_ten(x):
        return x.sin() if x.shape[0] > 10 else torch.sin(x)

    compiled = torch.compile(longer_than_ten, dynamic=True)
    inductor_npu.explain(compiled, on_npu(16))
    forget()
    (reason,) = inductor_npu.explain(compiled, on_npu(8)).cache("FX graph").reasons
    assert reason.startswith("kept for other sizes, where ")


def test_a_backward_from_the_cache_is_still_a_backward() -> None:
    def explain() -> Explanation:
        forget()
        x = on_npu(8, 32).requires_grad_()
        return inductor_npu.explain(lambda x: torch.softmax(x, -1) * 2, x, backward=True)

    first, second = explain(), explain()
    assert [(graph.pass_, graph.found) for graph in second.graphs] == [(Pass.FORWARD, True), (Pass.BACKWARD, True)]
    assert [graph.kernels for graph in second.graphs] == [graph.kernels for graph in first.graphs]


def test_compile_time_is_that_of_the_call() -> None:
    explained = inductor_npu.explain(lambda x: x.tan(), on_npu(16))
    assert len(explained.times.graphs) == 1
    assert explained.times.seconds > 0


# ---- shown


def test_tables_and_plain_data() -> None:
    def broken(x):
        y = torch.sin(x)
        torch._dynamo.graph_break()
        return torch.linalg.inv(y)

    explained = inductor_npu.explain(broken, on_npu(16, 16))
    text = str(explained)
    assert "2 graphs; 1 graph break; 0 recompiles; 1 kernel; 2 library calls; 0 left to eager" in " ".join(text.split())
    for title in ("Graphs", "Graph breaks", "Kernels", "Library calls", "Caches", "Compile time"):
        assert title in text
    for title in ("Recompiles", "Left to eager"):
        assert f"{title}\n" not in text
    assert json.loads(json.dumps(explained.to_json()))["graphs"][0]["kernels"][0]["operators"] == ["aten.sin"]


@pytest.mark.parametrize("columns", [80, 120])
def test_a_table_is_as_wide_as_the_terminal_and_keeps_numbers_whole(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    explained = inductor_npu.explain(lambda x: torch.softmax(x.sin(), -1).sum(0), on_npu(1000, 1000))
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = str(explained).splitlines()
    assert max(map(len, lines)) <= columns
    assert any(line.endswith("31.2 KiB  3.91 KiB") for line in lines)


def test_of_many_kernels_those_are_shown_that_move_most_and_those_of_which_nobody_knows() -> None:
    kernels = [Kernel(f"kernel_{number:02}", ("aten.add",), (), 1, 100 - number, 0) for number in range(45)]
    users = Kernel("mine", (), (), 1, None, None, written_by_user=True)
    text = str(Explanation((Graph("0/0", Pass.INFERENCE, "f", None, False, (*kernels, users), (), ()),)))
    shown = [word for word in text.split() if word == "mine" or word.startswith("kernel_")]
    assert shown == ["mine", *(f"kernel_{number:02}" for number in range(39))]
    assert "and 6 that move less" in text


def test_nobody_listens_outside_of_a_record() -> None:
    import logging

    before = list(logging.getLogger("torch.__trace").handlers)
    inductor_npu.explain(lambda x: x - 4, on_npu(16))
    after = logging.getLogger("torch.__trace").handlers
    assert [handler for handler in after if handler not in before] == []


def test_what_a_call_raises_is_raised_and_the_record_ends() -> None:
    def failing(x):
        raise ValueError("as planned")

    with pytest.raises(ValueError, match="as planned"):
        inductor_npu.explain(failing, on_npu(16))


@pytest.mark.slow
def test_a_process_prints_a_summary_at_its_end_if_asked() -> None:
    source = "import torch, inductor_npu; inductor_npu.explain(lambda x: x + 1, torch.ones(8, device='npu'))"
    asked = run_forked(source, INDUCTOR_NPU_SUMMARY="1")
    assert asked.returncode == 0
    assert "1 graph; 0 graph breaks; 0 recompiles; 1 kernel" in asked.stderr
    assert "aten.add" in asked.stderr


def test_captured_graphs() -> None:
    compiled = torch.compile(lambda x: x.exp().sum(0), mode="reduce-overhead")
    x = torch.ones(16, 16, device="npu")
    with inductor_npu.record_explanation() as recorded:
        for _ in range(4):
            compiled(x)
    (captured,) = recorded.explanation.captured
    assert (captured.warmed_up, captured.captured, captured.replayed, captured.skipped) == (1, 1, 3, ())
    assert "Captured graphs" in str(recorded.explanation)
    with inductor_npu.record_explanation() as again:
        pass
    assert again.explanation.captured == ()
