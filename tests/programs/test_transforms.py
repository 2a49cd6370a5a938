"""Functions of functions (torch.func) inside compiled code: vmap, grad, vjp, jvp, jacobians, hessians."""

from __future__ import annotations

import pytest
import torch
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap

from tests.compile.helpers import check, code_of, counted, kernel_count


def _energy(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return (torch.tanh(w @ x) ** 2).sum() + x.cos().sum()


def test_vmap_over_rows_is_one_kernel() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return vmap(lambda row, w: torch.softmax(row * w, 0) + row.sum(), in_dims=(0, None))(x, w)

    check(fn, torch.randn(6, 40), torch.randn(40))
    assert kernel_count(code_of(fn, torch.randn(6, 40).to("npu"), torch.randn(40).to("npu"))) == 1


def test_vmap_inside_of_vmap_with_other_axes() -> None:
    def fn(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        pairs = vmap(vmap(torch.dot, in_dims=(None, 1)), in_dims=(0, None))(x, y)
        return pairs, vmap(lambda a: (a - a.mean()).abs(), in_dims=1, out_dims=1)(x)

    check(fn, torch.randn(4, 5), torch.randn(5, 3))


def test_vmap_of_operators_that_index_and_mutate() -> None:
    def one(x: torch.Tensor, index: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x.clone()
        y[1] = 0.5
        y.add_(x[index].sum())
        return y, x.index_select(0, index), torch.where(x > 0, x, 0).cumsum(0), x.argmax()

    check(vmap(one), torch.randn(3, 7), torch.randint(0, 7, (3, 4)))


@pytest.mark.slow
def test_vmap_in_chunks_and_with_dynamic_shapes() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return vmap(lambda row: row.exp() / row.norm(), chunk_size=2)(x)

    check(fn, torch.randn(5, 6))
    compiled, counter = counted(lambda x: vmap(lambda row: row.softmax(0) * 2)(x), fullgraph=True, dynamic=True)
    for rows in (3, 8):
        check(lambda x: vmap(lambda row: row.softmax(0) * 2)(x), torch.randn(rows, 5), compiled=compiled)
    assert counter.frame_count == 1


def test_random_numbers_differ_along_vmap() -> None:
    compiled = torch.compile(lambda x: vmap(torch.rand_like, randomness="different")(x), fullgraph=True)
    rows = compiled(torch.zeros(3, 50).to("npu")).cpu()
    assert (rows >= 0).all() and (rows < 1).all()
    assert not torch.equal(rows[0], rows[1])


def test_grad_with_value_and_aux() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[object, ...]:
        gradient, value = grad_and_value(_energy)(x, w)
        both, aux = grad(lambda x, w: (_energy(x, w), x * 2), argnums=(0, 1), has_aux=True)(x, w)
        return gradient, value, both, aux

    check(fn, torch.randn(4), torch.randn(3, 4))


@pytest.mark.slow
def test_gradients_of_each_sample() -> None:
    layer = torch.nn.Linear(5, 3)
    names, values = zip(*((name, value.detach()) for name, value in layer.named_parameters()))

    def fn(x: torch.Tensor, target: torch.Tensor, *values: torch.Tensor) -> dict[str, torch.Tensor]:
        def loss(parameters: dict[str, torch.Tensor], x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
            scores = functional_call(layer, parameters, (x.unsqueeze(0),))
            return torch.nn.functional.cross_entropy(scores, target.unsqueeze(0))

        return vmap(grad(loss), in_dims=(None, 0, 0))(dict(zip(names, values)), x, target)

    check(fn, torch.randn(8, 5), torch.randint(0, 3, (8,)), *values)


@pytest.mark.slow
def test_vjp_and_jvp() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor, direction: torch.Tensor) -> tuple[torch.Tensor, ...]:
        value, pullback = vjp(lambda x: torch.softmax(w @ x, 0), x)
        pushed, tangent = jvp(lambda x: torch.nn.functional.layer_norm(x, (4,)).exp(), (x,), (direction,))
        return value, pullback(torch.ones_like(value).cumsum(0))[0], pushed, tangent

    check(fn, torch.randn(4), torch.randn(3, 4), torch.randn(4))


@pytest.mark.slow
def test_jacobians_forward_and_backward() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return jacrev(lambda x: torch.sigmoid(w @ x))(x), jacfwd(lambda x: (w @ x).sin())(x)

    check(fn, torch.randn(4), torch.randn(3, 4))


@pytest.mark.slow
def test_hessian_and_its_product_with_a_vector() -> None:
    def fn(x: torch.Tensor, w: torch.Tensor, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        product = jvp(grad(_energy), (x, w), (direction, torch.zeros_like(w)))[1]
        return hessian(_energy)(x, w), product

    check(fn, torch.randn(4), torch.randn(3, 4), torch.randn(4))


def test_a_second_derivative_by_grad_of_grad() -> None:
    check(lambda x: vmap(grad(grad(lambda x: x.sin() * x**3)))(x), torch.randn(9))


def test_gradients_of_a_gradient_reach_the_parameters() -> None:
    """A penalty on the gradient, as of physics-informed networks, trained outside of the compiled function."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        slopes = vmap(grad(lambda x: torch.tanh(w * x).sum()))(x)
        return slopes.square().mean()

    check(fn, torch.randn(10), torch.randn(6, requires_grad=True), backward=True)


def test_linearization_at_a_point() -> None:
    def fn(x: torch.Tensor, direction: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        value, push = linearize(lambda x: x.exp() * x, x)
        return value, push(direction)

    x, direction = torch.randn(6), torch.randn(6)
    expected = x.exp() * x, (x.exp() * (x + 1)) * direction
    actual = torch.compile(fn)(x.to("npu"), direction.to("npu"))
    torch.testing.assert_close([y.cpu() for y in actual], list(expected))
