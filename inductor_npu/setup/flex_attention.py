"""Lets compiled programs call FlexAttention on `npu`: the devices that it takes are a set inside a function of torch.

Dynamo gets a function in the place of that one, by its own registration for that purpose. In eager FlexAttention says
what it says on any other device without kernels.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

import torch

_DEVICE = "npu"


def admit() -> None:
    """Registers what Dynamo traces instead of torch's check of devices."""
    from torch.nn.attention import flex_attention

    original = flex_attention._validate_device
    # The same code under another name: Dynamo would take ours for the original here, too.
    check = FunctionType(original.__code__, original.__globals__)

    def validate_device(query: Any, key: Any, value: Any) -> None:
        if query.device.type != _DEVICE:
            check(query, key, value)

    torch.compiler.substitute_in_graph(original, skip_signature_check=True)(validate_device)
