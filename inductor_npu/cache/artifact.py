"""Our entries in `torch.compiler.save_cache_artifacts`: they travel with Inductor's own."""

from __future__ import annotations

import warnings

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager

from inductor_npu.cache.entry import DamagedEntryError, Entry
from inductor_npu.cache.location import kernel_store
from inductor_npu.errors import NpuWarning

TYPE = "inductor_npu"


class NpuCacheArtifact(CacheArtifact):
    """One entry: `key` is the digest of its key, `content` its packed form."""

    def populate_cache(self) -> None:
        """Writes the entry into this process's cache; a damaged one is left out with a warning."""
        try:
            entry = Entry.unpack(self.content, self.key)
        except DamagedEntryError as error:
            message = f"a cache artifact of inductor-npu cannot be used ({error}); what it held is compiled again"
            warnings.warn(message, NpuWarning, stacklevel=2)
            return
        kernel_store().write(entry)

    @staticmethod
    def type() -> str:
        return TYPE


def register() -> None:
    """Lets torch read and write artifacts of this type; to be called once."""
    CacheArtifactFactory.register(NpuCacheArtifact)


def record(entry: Entry) -> None:
    """Has `entry` saved by the next `torch.compiler.save_cache_artifacts`."""
    CacheArtifactManager.record_artifact(TYPE, entry.key.digest, entry.pack())
