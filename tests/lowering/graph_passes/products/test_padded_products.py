"""Rows of matrices begin where a chip's library wants them to: zeros are added, and cut off again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._inductor.utils import run_and_get_code
from torch._inductor.virtualized import V
from torch.fx.experimental.proxy_tensor import make_fx
from torch.torch_version import TorchVersion

import inductor_npu.config as config
from inductor_npu.lowering.graph_passes.products import padded_products
from tests.compile.helpers import assert_equal, check, to_npu
from tests.lowering.graph_passes.calls import KERNEL, count_calls

pytestmark = pytest.mark.usefixtures("for_h100", "any_product_pays")

BF16 = torch.bfloat16
MULTIPLE = 8  # elements of two bytes, in 16 bytes


@pytest.fixture
def any_product_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also of matrices as small as a test's."""
    monkeypatch.setattr(padded_products, "_LEAST_WORK", 0)


def product(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return left @ right


def with_weight(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return rows @ weight.t()


def gradient_of_weight(rows: torch.Tensor, gradient: torch.Tensor) -> torch.Tensor:
    return gradient.t() @ rows


def with_bias(bias: torch.Tensor, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.addmm(bias, left, right)


def batch_of_turned(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    return torch.bmm(left.mT, right)


def greatest(rows: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return torch.softmax((rows @ weight.t()).float(), 1).amax(1)


def random(*shape: int, dtype: torch.dtype = BF16) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


def graph_of(function: Callable[..., Any], *inputs: torch.Tensor) -> tuple[torch.fx.GraphModule, int]:
    """The graph on npu after the pass, and how many products it has padded."""
    module = make_fx(function, tracing_mode="fake")(*map(to_npu, inputs))
    fake = next(iter(module.graph.nodes)).meta["val"].fake_mode
    with V.set_fake_mode(fake):
        padded = padded_products.apply(module.graph)
    module.recompile()
    return module, padded


def operands(module: torch.fx.GraphModule) -> list[torch.Tensor]:
    """The matrices that the library multiplies."""
    products = [node for node in module.graph.nodes if node.target in padded_products._PRODUCTS]
    return [operand.meta["val"] for node in products for operand in node.args[-2:]]


CASES = {
    "columns": (product, (random(16, 24), random(24, 13)), [(16, 24), (24, 16)]),
    "rows of a weight": (with_weight, (random(16, 24), random(13, 24)), [(16, 24), (24, 16)]),
    "inner": (product, (random(16, 21), random(21, 16)), [(16, 24), (24, 16)]),
    "inner, and columns": (product, (random(5, 21), random(21, 13)), [(5, 24), (24, 16)]),
    "rows that are columns in memory": (gradient_of_weight, (random(16, 24), random(16, 13)), [(16, 16), (16, 24)]),
    "a bias for columns": (with_bias, (random(13), random(16, 24), random(24, 13)), [(16, 24), (24, 16)]),
    "a bias for elements": (with_bias, (random(16, 13), random(16, 24), random(24, 13)), [(16, 24), (24, 16)]),
    "a bias for rows": (with_bias, (random(16, 1), random(16, 24), random(24, 13)), [(16, 24), (24, 16)]),
    "a batch": (torch.bmm, (random(3, 16, 21), random(3, 21, 13)), [(3, 16, 24), (3, 24, 16)]),
    "a batch of turned matrices": (
        batch_of_turned,
        (random(3, 24, 13), random(3, 24, 16)),
        [(3, 16, 24), (3, 24, 16)],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_matrices_get_rows_of_whole_multiples_and_the_product_stays_what_it_is(name: str) -> None:
    function, inputs, shapes = CASES[name]
    module, padded = graph_of(function, *inputs)
    assert padded == 1 and [tuple(matrix.shape) for matrix in operands(module)] == shapes
    for matrix in operands(module):
        assert all(stride in (0, 1) or stride % MULTIPLE == 0 for stride in matrix.stride()[-2:])
    assert_equal(module(*map(to_npu, inputs)), function(*inputs))


@pytest.mark.parametrize("name", CASES)
def test_compiled(name: str) -> None:
    function, inputs, _ = CASES[name]
    check(function, *inputs)


def test_a_weight_is_padded_in_the_order_in_which_it_lies() -> None:
    module, _ = graph_of(*CASES["rows of a weight"][:1], *CASES["rows of a weight"][1])
    _, right = operands(module)
    assert right.stride() == (1, 24)


def test_what_the_library_gives_is_read_with_its_padded_rows() -> None:
    def two(rows: torch.Tensor, first: torch.Tensor, second: torch.Tensor) -> torch.Tensor:
        return (rows @ first) @ second

    module, padded = graph_of(two, random(16, 24), random(24, 21), random(21, 16))
    *_, left, _ = operands(module)
    assert padded == 1 and left.stride() == (24, 1) and left.shape == (16, 21)


def test_training() -> None:
    check(greatest, random(16, 24).requires_grad_(), random(13, 24).requires_grad_(), backward=True)


@pytest.mark.parametrize("name", CASES)
def test_rows_that_the_user_gets_may_lie_apart_but_nothing_else_changes(name: str) -> None:
    function, inputs, _ = CASES[name]
    with torch.no_grad():
        result, (text,) = run_and_get_code(torch.compile(function, fullgraph=True), *map(to_npu, inputs))
    *_, columns = result.shape
    *_, row, element = result.stride()
    assert element == 1 and row == columns + -columns % MULTIPLE
    assert "clone" not in text
    assert_equal(result, function(*inputs))


def laid_over(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    whole = left @ right
    return whole, whole.view(-1)


def rows(left: torch.Tensor, right: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (left @ right).unbind()


@pytest.mark.parametrize("function", [laid_over, rows])
@pytest.mark.parametrize("backward", [False, True])
def test_results_of_one_memory_have_the_strides_of_eager(function: Callable[..., Any], backward: bool) -> None:
    left, right = random(2, 24).requires_grad_(backward), random(24, 13).requires_grad_(backward)
    check(function, left, right, backward=backward)
    results = torch.compile(function, fullgraph=True)(to_npu(left), to_npu(right))
    assert [result.stride() for result in results] == [result.stride() for result in function(left, right)]


def test_gradients_have_the_strides_of_eager() -> None:
    left, right = to_npu(random(16, 13)).requires_grad_(), to_npu(random(13, 24)).requires_grad_()
    torch.compile(product, fullgraph=True)(left, right).sum().backward()
    assert left.grad.is_contiguous() and right.grad.is_contiguous()


@pytest.mark.parametrize(
    "inputs",
    [
        (random(5, 24), random(24, 16)),
        (random(16, 24, dtype=torch.float32), random(24, 13, dtype=torch.float32)),
        (random(16, 0), random(0, 13)),
        (random(16, 24)[:, ::2], random(12, 16)),
    ],
    ids=["multiples", "float32", "empty", "elements apart"],
)
def test_left_alone(inputs: tuple[torch.Tensor, ...]) -> None:
    assert graph_of(product, *inputs)[1] == 0


def test_little_work_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "H100")
    assert graph_of(product, random(16, 24), random(24, 13))[1] == 0
    assert graph_of(greatest, *(torch.empty(size, dtype=BF16) for size in ((2048, 768), (4001, 768))))[1] == 1


def test_products_of_one_matrix_share_what_is_padded() -> None:
    def gradients(gradient: torch.Tensor, rows: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor, ...]:
        gradient = torch.relu(gradient)
        return gradient @ weight, gradient.t() @ rows

    inputs = random(16, 21), random(16, 24), random(21, 24)
    with torch.no_grad():
        results, (text,) = run_and_get_code(torch.compile(gradients, fullgraph=True), *map(to_npu, inputs))
    assert_equal(results, gradients(*inputs))
    # What is computed is computed into padded rows; their zeros, and the weight with its own, are a kernel each. Torch
    # 2.11 makes one kernel of the two.
    assert count_calls(text) == {KERNEL: 3 if TorchVersion(torch.__version__) >= "2.12" else 2, "mm": 2}


def test_switched_off() -> None:
    with config.patch(graph_passes="none"), torch.no_grad():
        _, (module,) = run_and_get_code(torch.compile(product), *map(to_npu, CASES["columns"][1]))
    assert "constant_pad_nd" not in module


@pytest.mark.parametrize("target", ["Ascend910B3"])
def test_a_chip_whose_library_does_not_mind(monkeypatch: pytest.MonkeyPatch, target: str) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", target)
    assert graph_of(product, *CASES["columns"][1])[1] == 0
