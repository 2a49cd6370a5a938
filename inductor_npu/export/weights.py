"""The weights of a package, in the format of safetensors: 8 bytes of length, a JSON header, the tensors' bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from inductor_npu.errors import UnpackableError
from inductor_npu.export.values import type_name

_TYPES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.complex64: "C64",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint64: "U64",
    torch.uint32: "U32",
    torch.uint16: "U16",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
_ALIGNMENT = 8  # of the data behind the header, as safetensors pads it


@dataclass(frozen=True)
class Weight:
    """A parameter, buffer or constant of the model. Tied ones have several names."""

    names: tuple[str, ...]
    tensor: torch.Tensor


def named(tensors: Mapping[str, torch.Tensor]) -> list[Weight]:
    """`tensors`, those that are the same memory seen in the same way as one."""
    names: dict[Any, list[str]] = {}
    kept: dict[Any, torch.Tensor] = {}
    for name, tensor in tensors.items():
        key = identity(tensor)
        names.setdefault(key, []).append(name)
        kept[key] = tensor
    return [Weight(tuple(names[key]), kept[key]) for key in names]


def identity(tensor: torch.Tensor) -> Any:
    """Equal for tensors that are the same memory seen in the same way."""
    place = tensor.data_ptr() if tensor.numel() else id(tensor)
    return place, tensor.dtype, tuple(tensor.shape), tensor.stride()


def described(weights: Sequence[Weight]) -> list[dict[str, Any]]:
    """What the manifest says of them."""
    return [
        {
            "names": list(weight.names),
            "dtype": type_name(weight.tensor.dtype),
            "size": list(weight.tensor.shape),
            "stride": list(weight.tensor.stride()),
        }
        for weight in weights
    ]


def to_safetensors(weights: Sequence[Weight]) -> bytes:
    """The file, in which each tensor has its first name. Raises UnpackableError for a type that the format lacks."""
    header: dict[str, Any] = {}
    parts: list[bytes] = []
    end = 0
    for weight in weights:
        values = weight.tensor.detach().cpu().contiguous()
        if values.dtype not in _TYPES:
            reason = f"weight {weight.names[0]} is of type {values.dtype}, which safetensors files do not have"
            raise UnpackableError(reason=reason, where="")
        parts.append(values.reshape(-1).view(torch.uint8).numpy().tobytes() if values.numel() else b"")
        header[weight.names[0]] = {
            "dtype": _TYPES[values.dtype],
            "shape": list(values.shape),
            "data_offsets": [end, end + len(parts[-1])],
        }
        end += len(parts[-1])
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % _ALIGNMENT)
    return b"".join([len(text).to_bytes(8, "little"), text, *parts])
