"""Runs a function compiled for `npu` and holds it against the same function in eager on the CPU."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo.testing import CompileCounterWithBackend
from torch.utils import _pytree as pytree

# Sums over thousands of elements in another order differ in the last bits: twice assert_close's own tolerance for fp32.
TOLERANCE = {torch.float32: (2.6e-6, 2e-5), torch.float16: (2e-3, 2e-3), torch.bfloat16: (1.6e-2, 1e-2)}


def to_npu(tensor: torch.Tensor, device: str = "npu") -> torch.Tensor:
    """`tensor` on `device` with the same strides and storage offset, also where memory between elements is unused."""
    if not isinstance(tensor, torch.Tensor):
        return tensor
    memory = torch.empty(0, dtype=tensor.dtype).set_(tensor.untyped_storage()).detach().to(device)
    moved = torch.as_strided(memory, tensor.size(), tensor.stride(), tensor.storage_offset())
    return moved.detach().requires_grad_(tensor.requires_grad)


def assert_equal(actual: Any, expected: Any) -> None:
    """Every tensor of `actual` (on any device) has the values, dtype and shape of its partner in `expected`."""
    actual_leaves, actual_spec = pytree.tree_flatten(actual)
    expected_leaves, expected_spec = pytree.tree_flatten(expected)
    assert actual_spec == expected_spec, f"{actual_spec} is not {expected_spec}"
    for number, (got, wanted) in enumerate(zip(actual_leaves, expected_leaves)):
        if not isinstance(wanted, torch.Tensor):
            assert got == wanted, f"{got} is not {wanted}"
            continue
        rtol, atol = TOLERANCE.get(wanted.dtype, (None, None))
        torch.testing.assert_close(
            got.detach().cpu(),
            wanted.detach(),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda text, number=number: f"tensor {number} of {len(expected_leaves)}: {text}",
        )


def check(fn: Callable[..., Any], *inputs: Any, backward: bool = False, compiled: Any = None, **options: Any) -> Any:
    """Compiles `fn` for npu, runs it on `inputs` moved there, and compares with eager on the CPU: results, what became
    of the inputs, and with `backward` the gradients of the sum of all results. Returns the compiled result.

    `compiled` is an already compiled `fn` to use instead; `options` go to torch.compile (fullgraph is on by default).
    """
    reference = pytree.tree_map(lambda leaf: leaf.clone() if _is_plain(leaf) else copy.deepcopy(leaf), inputs)
    reference = pytree.tree_map(_as_leaf, reference, inputs) if backward else reference
    moved = pytree.tree_map(to_npu, inputs)
    expected = fn(*reference)
    if compiled is None:
        compiled = torch.compile(fn, **{"fullgraph": True, **options})
    actual = compiled(*moved)
    assert_equal(actual, expected)
    if backward:
        _backward(expected)
        _backward(actual)
        assert_equal(_gradients(moved), _gradients(reference))
    else:
        assert_equal(moved, reference)
    return actual


def _is_plain(leaf: Any) -> bool:
    return isinstance(leaf, torch.Tensor) and not leaf.requires_grad


def _as_leaf(leaf: Any, original: Any) -> Any:
    if isinstance(original, torch.Tensor):
        return leaf.detach().requires_grad_(original.requires_grad)
    return leaf


def _backward(outputs: Any) -> None:
    tensors = [leaf for leaf in pytree.tree_leaves(outputs) if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    sum(tensor.float().sum() for tensor in tensors).backward()


def _gradients(inputs: Any) -> list[torch.Tensor | None]:
    leaves = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, torch.Tensor)]
    return [leaf.grad for leaf in leaves if leaf.requires_grad]


def counted(fn: Callable[..., Any], **options: Any) -> tuple[Any, CompileCounterWithBackend]:
    """`fn` compiled by Inductor, and the counter of its graphs (`frame_count`) and of their operators (`op_count`)."""
    counter = CompileCounterWithBackend("inductor")
    return torch.compile(fn, backend=counter, **options), counter


def code_of(fn: Callable[..., Any], *inputs: Any, **options: Any) -> list[str]:
    """The modules that Inductor generates for `fn` on `inputs`, one for each graph."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    return run_and_get_code(torch.compile(fn, **options), *inputs)[1]


def kernel_count(sources: Sequence[str]) -> int:
    """How many Triton kernels the generated modules define."""
    return sum(source.count("async_compile.triton(") for source in sources)
