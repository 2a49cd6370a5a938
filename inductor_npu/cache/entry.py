"""An entry of the cache: what decides it (a key of named fields), and the bytes of one file that hold both.

Nothing here touches a disk, torch or Triton.
"""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

# First bytes of an entry's file; the number is that of the format, and part of every key.
FORMAT = 2
MAGIC = b"inductor-npu entry %d\n" % FORMAT
_DIGEST_BYTES = hashlib.sha256().digest_size
_LENGTH_BYTES = 4


class DamagedEntryError(ValueError):
    """The bytes are not an entry of this format, or not the ones that were written."""


@dataclass(frozen=True)
class Key:
    """What decides an entry: its kind ("kernel", "verdict"), and fields by name, all of which are hashed.

    A field's value is short: a version, a setting, the hash of a text.
    """

    kind: str
    fields: Mapping[str, str]

    @functools.cached_property
    def digest(self) -> str:
        """64 hexadecimal digits: the entry's name. The order of the fields does not matter."""
        return hashlib.sha256(json.dumps([FORMAT, self.kind, sorted(self.fields.items())]).encode()).hexdigest()

    def differences(self, other: Key) -> list[str]:
        """The names of the fields in which `other` differs, or which only one of the two has; sorted."""
        names = {*self.fields, *other.fields}
        return sorted(name for name in names if self.fields.get(name) != other.fields.get(name))


@dataclass(frozen=True)
class Entry:
    """A key, what is stored under it, and facts about how it was made that decide nothing (`about`)."""

    key: Key
    content: bytes = field(repr=False)
    about: Mapping[str, str] = field(default_factory=dict)

    def pack(self) -> bytes:
        """Magic, SHA-256 of the rest, length of the header, header (JSON), content."""
        header = json.dumps(
            {"kind": self.key.kind, "fields": dict(self.key.fields), "about": dict(self.about)}
        ).encode()
        rest = len(header).to_bytes(_LENGTH_BYTES, "little") + header + self.content
        return MAGIC + hashlib.sha256(rest).digest() + rest

    @classmethod
    def unpack(cls, data: bytes, digest: str) -> Entry:
        """The reverse of `pack`, for an entry whose key has `digest`. Raises DamagedEntryError."""
        if not data:
            raise DamagedEntryError("it is empty")
        if not data.startswith(MAGIC):
            raise DamagedEntryError("it is not of this version's format")
        start = len(MAGIC) + _DIGEST_BYTES
        rest = memoryview(data)[start:]
        if hashlib.sha256(rest).digest() != data[len(MAGIC) : start]:
            raise DamagedEntryError("its checksum is wrong")
        end = _LENGTH_BYTES + int.from_bytes(rest[:_LENGTH_BYTES], "little")
        key, about = _parsed(bytes(rest[_LENGTH_BYTES:end]), digest)
        return cls(key, bytes(rest[end:]), about)

    @staticmethod
    def read_header(file: BinaryIO, digest: str) -> tuple[Key, Mapping[str, str]]:
        """The key and the facts of the entry in `file`, whose key has `digest`, without its content, which is neither
        read nor checked. Raises DamagedEntryError.
        """
        if file.read(len(MAGIC)) != MAGIC:
            raise DamagedEntryError("it is not of this version's format")
        file.read(_DIGEST_BYTES)
        return _parsed(file.read(int.from_bytes(file.read(_LENGTH_BYTES), "little")), digest)


def _parsed(header: bytes, digest: str) -> tuple[Key, Mapping[str, str]]:
    try:
        fields = json.loads(header)
    except ValueError as error:
        raise DamagedEntryError("its header cannot be read") from error
    key = Key(fields["kind"], fields["fields"])
    if key.digest != digest:
        raise DamagedEntryError("it belongs to another key")
    return key, fields["about"]
