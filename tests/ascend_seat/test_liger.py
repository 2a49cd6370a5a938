"""Kernels that a library brings for chips of Ascend: Liger's, forward and backward, alone and inside a compiled graph.

Liger 0.8.5's group norm is not here: its forward kernel has no guard for the last round of its loop over tasks, and
writes behind its results where the number of cores does not divide them.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

liger = pytest.importorskip("liger_kernel.transformers.functional")

LABELS = torch.randint(0, 100, (64,), generator=torch.Generator().manual_seed(0))
UNIFORM = torch.full((64, 256), 1 / 256)

# Liger's function, PyTorch's, and the shapes of what both take.
Case = tuple[Callable[..., torch.Tensor], Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]
ROWS, WEIGHT = (64, 256), (256,)
CASES: dict[str, Case] = {
    "rms_norm": (
        lambda x, w: liger.liger_rms_norm(x, w, 1e-6),
        lambda x, w: F.rms_norm(x, WEIGHT, w, 1e-6),
        (ROWS, WEIGHT),
    ),
    "layer_norm": (
        lambda x, w, b: liger.liger_layer_norm(x, w, b, 1e-5),
        lambda x, w, b: F.layer_norm(x, WEIGHT, w, b),
        (ROWS, WEIGHT, WEIGHT),
    ),
    "swiglu": (lambda a, b: liger.liger_swiglu(a, b), lambda a, b: F.silu(a) * b, (ROWS, ROWS)),
    "geglu": (
        lambda a, b: liger.liger_geglu(a, b),
        lambda a, b: F.gelu(a, approximate="tanh") * b,
        (ROWS, ROWS),
    ),
    "softmax": (lambda x: liger.liger_softmax(x), lambda x: x.softmax(-1), (ROWS,)),
    "cross_entropy": (
        lambda x: liger.liger_cross_entropy(x, LABELS.to(x.device)),
        lambda x: F.cross_entropy(x, LABELS),
        ((64, 100),),
    ),
    "fused_linear_cross_entropy": (
        lambda x, w: liger.liger_fused_linear_cross_entropy(x, w, LABELS.to(x.device)),
        lambda x, w: F.cross_entropy(x @ w.t(), LABELS),
        (ROWS, (100, 256)),
    ),
    "kl_div": (
        lambda x: liger.liger_kl_div(x.log_softmax(-1), UNIFORM.to(x.device), reduction="batchmean"),
        lambda x: F.kl_div(x.log_softmax(-1), UNIFORM, reduction="batchmean"),
        (ROWS,),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_liger(name: str) -> None:
    kernel, reference, shapes = CASES[name]
    here = [torch.randn(shape, requires_grad=True) for shape in shapes]
    wanted = reference(*here)
    weight = torch.rand(wanted.shape)
    wanted_gradients = torch.autograd.grad((wanted * weight).sum(), here)
    for function in (kernel, torch.compile(lambda *inputs: kernel(*inputs) * 1.0)):
        there = [tensor.detach().npu().requires_grad_() for tensor in here]
        got = function(*there)
        gradients = torch.autograd.grad((got * weight.npu()).sum(), there)
        torch.testing.assert_close(got.cpu(), wanted, rtol=1e-5, atol=1e-5)
        for gradient, wanted_gradient in zip(gradients, wanted_gradients, strict=True):
            torch.testing.assert_close(gradient.cpu(), wanted_gradient, rtol=1e-4, atol=1e-5)
