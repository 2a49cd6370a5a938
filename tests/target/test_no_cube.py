"""A chip without cube cores: the library does the products and attention, and `explain` says why."""

from __future__ import annotations

import json

import pytest

from tests.processes import run_python

pytestmark = pytest.mark.compiled

PROGRAM = """
from tests.target import invented_chip  # before the process chooses its chip
import json
import torch
import torch.nn.functional as F
import inductor_npu

def layer(x, weight, bias):
    heads = F.linear(x, weight, bias).unflatten(-1, (2, 16)).transpose(1, 2)
    return F.gelu(F.scaled_dot_product_attention(heads, heads, heads)) @ heads.mT

def gradients(layer, tensors):
    leaves = [tensor.detach().requires_grad_() for tensor in tensors]
    result = layer(*leaves)
    return [result, *torch.autograd.grad(result.square().sum(), leaves)]

inputs = [torch.randn(size) for size in ((2, 24, 32), (32, 32), (32,))]
with inductor_npu.record_explanation() as recorded:
    actual = gradients(torch.compile(layer), [tensor.to("npu") for tensor in inputs])
for got, wanted in zip(actual, gradients(layer, inputs)):
    torch.testing.assert_close(got.cpu(), wanted, rtol=0, atol=1e-4 * float(wanted.abs().max()))
explanation = recorded.explanation
print(json.dumps([call.operator.rpartition(".")[2] for call in explanation.library_calls]))
print(json.dumps(sorted({call.reason for call in explanation.library_calls})))
print(json.dumps([kernel.operations for kernel in explanation.kernels]))
print(explanation.arithmetic.text())

from torch.nn.attention.flex_attention import flex_attention
try:
    torch.compile(flex_attention)(*[torch.randn(1, 2, 16, 16, device="npu")] * 3)
except Exception as error:
    print(str(error).splitlines()[0])
"""


@pytest.mark.slow
def test_products_and_attention_are_the_librarys() -> None:
    """FlexAttention, which no library has, is an error with the same reason."""
    done = run_python(PROGRAM, timeout=300, INDUCTOR_NPU_TARGET="Invented6", INDUCTOR_NPU_STRICT="1")
    called, reasons, operations, arithmetic, flex = done.lines()
    attention = "_scaled_dot_product_fused_attention_overrideable"
    assert {"mm", "bmm", attention, f"{attention}_backward"} <= {*json.loads(called)}
    assert json.loads(reasons) == ["Invented6 has no cube cores"]
    assert sum(json.loads(operations)) == 0
    assert arithmetic.startswith("0% of ") and "100% in the library: " in arithmetic
    assert "flex_attention on npu has no kernel" in flex and "Invented6 has no cube cores" in flex
