"""The operators of `nn.LSTMCell` and `nn.GRUCell`, and their gradients, decomposed on `npu`.

On a device both modules call one operator for all that comes after their products, for which Inductor generates no
code. As an operator it always writes its workspace, up to five times the state; decomposed, only where gradients need
it. What it computes is written out in aten/src/ATen/native/cuda/RNN.cu.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch._inductor.decomposition import register_decomposition

_aten = torch.ops.aten
_DEVICE = "npu"


def register() -> None:
    """Adds them to Inductor's decompositions, which leave the operators of other devices alone."""
    register_decomposition(_aten._thnn_fused_lstm_cell.default)(_lstm_cell)
    register_decomposition(_aten._thnn_fused_lstm_cell_backward_impl.default)(_lstm_cell_backward)
    register_decomposition(_aten._thnn_fused_gru_cell.default)(_gru_cell)
    register_decomposition(_aten._thnn_fused_gru_cell_backward.default)(_gru_cell_backward)


def _with_bias(gates: Tensor, bias: Tensor | None) -> Tensor:
    return gates if bias is None else gates + bias


def _lstm_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    cx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> Any:
    """Gates [B, 4 H] in the order input, forget, cell, output and a state [B, H] -> hidden state, cell state, and the
    workspace: the gates, activated.
    """
    if cx.device.type != _DEVICE:
        return NotImplemented
    gates = _with_bias(_with_bias(input_gates + hidden_gates, input_bias), hidden_bias)
    taken, forgotten, candidate, output = gates.chunk(4, 1)
    taken, forgotten, output = taken.sigmoid(), forgotten.sigmoid(), output.sigmoid()
    candidate = candidate.tanh()
    cy = forgotten * cx + taken * candidate
    return output * cy.tanh(), cy, torch.cat([taken, forgotten, candidate, output], 1)


def _lstm_cell_backward(
    grad_hy: Tensor | None, grad_cy: Tensor | None, cx: Tensor, cy: Tensor, workspace: Tensor, has_bias: bool
) -> Any:
    """Gradients of hidden and cell state [B, H] -> those of the gates [B, 4 H], of the state before, of a bias."""
    if cx.device.type != _DEVICE or (grad_hy is None and grad_cy is None):
        return NotImplemented
    from_hy = torch.zeros_like(cy) if grad_hy is None else grad_hy
    from_cy = torch.zeros_like(cy) if grad_cy is None else grad_cy
    taken, forgotten, candidate, output = workspace.chunk(4, 1)
    tanh_cell = cy.tanh()
    grad_cell = _aten.tanh_backward(from_hy * output, tanh_cell) + from_cy
    gates = [
        _aten.sigmoid_backward(grad_cell * candidate, taken),
        _aten.sigmoid_backward(grad_cell * cx, forgotten),
        _aten.tanh_backward(grad_cell * taken, candidate),
        _aten.sigmoid_backward(from_hy * tanh_cell, output),
    ]
    grad_gates = torch.cat(gates, 1)
    return grad_gates, grad_cell * forgotten, grad_gates.sum(0) if has_bias else None


def _gru_cell(
    input_gates: Tensor,
    hidden_gates: Tensor,
    hx: Tensor,
    input_bias: Tensor | None = None,
    hidden_bias: Tensor | None = None,
) -> Any:
    """Gates [B, 3 H] in the order reset, update, new and a state [B, H] -> the next state, and the workspace: the
    gates, activated, the state, and the hidden part of the new gate.
    """
    if hx.device.type != _DEVICE:
        return NotImplemented
    from_input = _with_bias(input_gates, input_bias).chunk(3, 1)
    from_hidden = _with_bias(hidden_gates, hidden_bias).chunk(3, 1)
    reset = (from_input[0] + from_hidden[0]).sigmoid()
    update = (from_input[1] + from_hidden[1]).sigmoid()
    candidate = (from_input[2] + reset * from_hidden[2]).tanh()
    hy = (hx - candidate) * update + candidate
    return hy, torch.cat([reset, update, candidate, hx, from_hidden[2]], 1)


def _gru_cell_backward(grad_hy: Tensor, workspace: Tensor, has_bias: bool) -> Any:
    """The gradient of the next state [B, H] -> those of both gates [B, 3 H], of the state before, of both biases."""
    if workspace.device.type != _DEVICE:
        return NotImplemented
    reset, update, candidate, state, hidden = workspace.chunk(5, 1)
    grad_update = _aten.sigmoid_backward(grad_hy * (state - candidate), update)
    grad_new = _aten.tanh_backward(grad_hy - grad_hy * update, candidate)
    grad_reset = _aten.sigmoid_backward(grad_new * hidden, reset)
    from_input = torch.cat([grad_reset, grad_update, grad_new], 1)
    from_hidden = torch.cat([grad_reset, grad_update, grad_new * reset], 1)
    of_biases = (from_input.sum(0), from_hidden.sum(0)) if has_bias else (None, None)
    return from_input, from_hidden, grad_hy * update, *of_biases
