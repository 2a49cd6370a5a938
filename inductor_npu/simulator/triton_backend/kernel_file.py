"""A compiled kernel as Triton stores it: object code after a header with launch data and a checksum.

Triton hands the driver these bytes alone, so they carry what registering the kernel needs.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass

_MAGIC = b"inductor-npu kernel 1\n"
_DIGEST_BYTES = hashlib.sha256().digest_size


class DamagedKernelError(ValueError):
    """The bytes are not a kernel, or not the ones that were written."""


@dataclass(frozen=True)
class KernelFile:
    """`entry`: symbol of the kernel function in `object_code`; the other fields are those of `_C.register_kernel`."""

    object_code: bytes
    entry: str
    scratch_bytes: int
    work_per_program: int
    messages: tuple[str, ...]

    def pack(self) -> bytes:
        """Magic, SHA-256 of the rest, length of the header, header (JSON), object code."""
        fields = {name: value for name, value in asdict(self).items() if name != "object_code"}
        header = json.dumps(fields).encode()
        rest = len(header).to_bytes(4, "little") + header + self.object_code
        return _MAGIC + hashlib.sha256(rest).digest() + rest

    @staticmethod
    def unpack(data: bytes) -> KernelFile:
        """The reverse of `pack`. Raises DamagedKernelError."""
        if not data.startswith(_MAGIC):
            raise DamagedKernelError("not a kernel of this backend's format")
        start = len(_MAGIC) + _DIGEST_BYTES
        rest = data[start:]
        if hashlib.sha256(rest).digest() != data[len(_MAGIC) : start]:
            raise DamagedKernelError("its checksum does not match")
        end = 4 + int.from_bytes(rest[:4], "little")
        fields = json.loads(rest[4:end])
        return KernelFile(rest[end:], **{**fields, "messages": tuple(fields["messages"])})
