"""How results of convolutions lie in memory, for compiled code: as PyTorch's operators of the CPU or of CUDA, which
compute them, lay them out. PyTorch's own answer for a device from outside is that they are contiguous: then a result
that lies channels last is copied, and both are in memory at once.
"""

from __future__ import annotations

from types import ModuleType
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree

_DEVICE = "npu"


def register(fake_impls: ModuleType, library: str) -> None:
    """Has fake tensors on `npu` convolved as such on `library`, "cpu" or "cuda", from `fake_impls`,
    torch._subclasses.fake_impls.

    That module asks the entries of a list one after the other, of which its own table is the first.
    """
    infer = fake_impls.conv
    operators = {operator for operator, known in fake_impls.op_implementations_dict.items() if known is infer}

    def convolved(mode: FakeTensorMode, operator: Any, *arguments: Any, **named: Any) -> Any:
        tensors = [leaf for leaf in pytree.tree_leaves((arguments, named)) if isinstance(leaf, FakeTensor)]
        if not any(tensor.fake_device.type == _DEVICE for tensor in tensors):
            return NotImplemented
        device = tensors[0].fake_device
        place = torch.device(library) if library == "cpu" else torch.device(library, device.index or 0)
        positional, by_name = _moved((arguments, named), mode, place)
        results = infer(mode, operator, *positional, **by_name)
        return _moved(results, mode, device)

    fake_impls.op_implementations_checks.insert(0, (operators.__contains__, convolved))


def _moved(values: Any, mode: FakeTensorMode, device: torch.device) -> Any:
    """`values` with fake tensors of the same sizes and strides on `device`."""

    def move(tensor: FakeTensor) -> FakeTensor:
        meta = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")
        return FakeTensor(mode, meta, device)

    return pytree.tree_map_only(FakeTensor, move, values)
