"""The rules as functions of a kernel, one file a severity; element DMA and scalar addresses share `addresses`, and
what concerns dots is in `products`.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..kernel import Kernel
from . import addresses, products, refused, scalar, slow, wrong
from .hit import Hit

__all__ = ["Hit", "hits"]

_CHECKS = (wrong.check, refused.check, addresses.check, scalar.check, slow.check, products.check)


def hits(kernel: Kernel) -> Iterator[Hit]:
    """What the rules find in `kernel`, each thing once a line."""
    seen: set[tuple[str, str, object]] = set()
    for check in _CHECKS:
        for hit in check(kernel):
            place = (hit.rule, hit.what, hit.line and hit.line.line)
            if place not in seen:
                seen.add(place)
                yield hit
