"""The tiles that max-autotune found, in the store: the next process does not try again."""

from __future__ import annotations

import json
from collections.abc import Mapping

from inductor_npu.cache import artifact
from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.location import kernel_store
from inductor_npu.tiling.plan import TilePlan

KIND = "tile"


def read(fields: Mapping[str, str]) -> TilePlan | None:
    """The tile of the kernel that `fields` decide, None if none is kept. Fields are short texts, as in Key."""
    entry = kernel_store().read(Key(KIND, fields))
    if entry is None:
        return None
    artifact.record(entry)
    kept = json.loads(entry.content)
    return TilePlan(tuple(kept["order"]), dict(kept["blocks"]), tuple(kept["loops"]), frozenset(kept["whole"]))


def write(fields: Mapping[str, str], tile: TilePlan) -> None:
    """Keeps `tile` as the one of the kernel that `fields` decide."""
    whole = sorted(tile.whole)
    content = json.dumps({"order": tile.order, "blocks": tile.blocks, "loops": tile.loops, "whole": whole})
    entry = Entry(Key(KIND, fields), content.encode())
    kernel_store().write(entry)
    artifact.record(entry)
