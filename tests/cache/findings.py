"""What the programs that put the cache under stress share."""

from __future__ import annotations

from dataclasses import dataclass, field

from inductor_npu.cache.store import IN_USE_SECONDS, Store

# Entries look this old to whoever prunes, or else nothing would ever be evicted in so short a time.
_OLD = 2 * IN_USE_SECONDS


@dataclass
class Findings:
    """What went wrong, and how much was done."""

    wrong: list[str] = field(default_factory=list)
    done: dict[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        counts = ", ".join(f"{number} {what}" for what, number in self.done.items())
        return f"{counts}; " + ("nothing wrong" if not self.wrong else f"{len(self.wrong)} WRONG: {self.wrong[:5]}")


def as_if_later(store: Store) -> Store:
    """A store of the same folder to which nothing was used within the last minute."""

    class Later(Store):
        def _now(self) -> float:
            return super()._now() + _OLD

    return Later(store.folder, store.limit)
