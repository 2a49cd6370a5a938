"""Why something is not in the cache: the fields of its key in which the nearest entry differs."""

from __future__ import annotations

import json
from collections.abc import Mapping

from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.store import Store

# In `Entry.about`: the kernel's name, and what decided its source (JSON of names and values).
NAME, GENERATED_WITH = "name", "generated with"
_SOURCE = "source"
_LONGEST_VALUE = 100


def explain(store: Store, key: Key, name: str, generated_with: Mapping[str, str]) -> str:
    """Why `store` has no entry of `key` for the kernel called `name`: a part of a sentence.

    The nearest entry is one of the same source, else of a kernel of that name, else the one with the fewest fields that
    differ. Where the source differs, so may what decided it, which then is named too.
    """
    entries = [entry for _, entry in store.entries() if isinstance(entry, Entry) and entry.key.kind == key.kind]
    if not entries:
        return f"{store.folder} has no {key.kind} at all"

    def distance(entry: Entry) -> tuple[bool, bool, int]:
        differences = key.differences(entry.key)
        return _SOURCE in differences, entry.about.get(NAME) != name, len(differences)

    nearest = min(entries, key=distance)
    differences = key.differences(nearest.key)
    if not differences:
        return "it has been stored meanwhile"
    told = [_told(field, key.fields.get(field), nearest.key.fields.get(field)) for field in differences]
    if _SOURCE in differences:
        before = json.loads(nearest.about.get(GENERATED_WITH, "{}"))
        told += changes(generated_with, before)
    return f"the nearest entry, {nearest.about.get(NAME, nearest.key.digest[:12])}, differs in {'; '.join(told)}"


def changes(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Each field in which `now` and `before` differ, with both values."""
    names = sorted({*now, *before})
    return [_told(name, now.get(name), before.get(name)) for name in names if now.get(name) != before.get(name)]


def _told(field: str, now: str | None, before: str | None) -> str:
    return f"{field} ({_short(now)} here, {_short(before)} there)"


def _short(value: str | None) -> str:
    if value is None:
        return "absent"
    return value if len(value) <= _LONGEST_VALUE else f"{value[:_LONGEST_VALUE]}..."
