"""A compiled kernel as Triton caches it: the cubin, and behind it how many threads a program has. CUDA's driver does
not tell: what it calls the most threads of a kernel is 1024 in spite of .reqntid.
"""

from __future__ import annotations

import struct

_MAGIC = b"npu threads\0"
_TRAILER = struct.Struct("<12sI")


def packed(cubin: bytes, threads: int) -> bytes:
    """`cubin` with the threads of a program behind it, where tools that read cubins ignore them."""
    return cubin + _TRAILER.pack(_MAGIC, threads)


def is_packed(image: bytes) -> bool:
    """Whether `packed` made it."""
    return len(image) > _TRAILER.size and _TRAILER.unpack(image[-_TRAILER.size :])[0] == _MAGIC


def unpacked(image: bytes, kernel: str) -> tuple[bytes, int]:
    """The cubin and the threads of a program. Raises ValueError if `image` was not made by `packed`."""
    if not is_packed(image):
        raise ValueError(
            f"kernel {kernel} cannot be loaded: the end of its code is missing; delete Triton's cache directory to "
            "have it compiled again"
        )
    return image[: -_TRAILER.size], _TRAILER.unpack(image[-_TRAILER.size :])[1]
