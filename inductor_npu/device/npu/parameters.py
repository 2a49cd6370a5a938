"""Keeps parameters the same objects when they move between devices, as PyTorch does for its own list of devices.

`module.to(device)` gives each parameter the memory of its copy (`parameter.data = copy`) if the operator
`_has_compatible_shallow_copy_type` says that the one may replace the other. If not, it creates a new parameter in every
place: tied weights would then train apart, and an optimizer would keep the old ones. External devices override the
operator; c10/core/TensorImpl.h refers to PyTorch's example of such a device.
"""

from __future__ import annotations

import functools

import torch

# Of which TensorImpl::has_compatible_shallow_copy_type says so by itself, and ours.
_DENSE = frozenset(("cpu", "cuda", "mps", "xpu", "hpu", "mtia", "npu"))


def _may_stand_for(tensor: torch.Tensor, other: torch.Tensor) -> bool:
    kinds = {tensor.device.type, other.device.type}
    return tensor.layout == other.layout == torch.strided and kinds <= _DENSE


@functools.cache
def register() -> torch.library.Library:
    """Has dense tensors on `npu` and those on other devices stand for each other. The registration lasts as long as the
    library that is returned, which this module keeps.
    """
    library = torch.library.Library("aten", "IMPL")
    library.impl("_has_compatible_shallow_copy_type", _may_stand_for, "PrivateUse1")
    return library
