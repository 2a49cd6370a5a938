"""An operator that stores its operand: what the pass puts where kernels should read a value, not compute it again.

Inductor decides for itself which values are stored, one by one as it makes loops, and has no operator to tell it.
"""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V

_LIBRARY = torch.library.Library("inductor_npu", "DEF")
_LIBRARY.define("stored(Tensor value) -> Tensor", tags=torch.Tag.pt2_compliant_tag)
_LIBRARY.impl("stored", torch.clone, "CompositeExplicitAutograd")

stored = torch.ops.inductor_npu.stored.default


def register() -> None:
    """Teaches Inductor to lower `stored`."""
    lowering.register_lowering(stored, type_promotion_kind=None)(_lower)


def _lower(value: Any) -> Any:
    value.realize()
    # As for values that Inductor stores of itself (GraphLowering.run_node): it knows channels of images only.
    if len(value.get_size()) == 4 and V.graph.current_node in V.graph.nodes_prefer_channels_last:
        return ir.ExternKernel.require_channels_last(value)
    return value
