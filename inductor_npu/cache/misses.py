"""Why a kernel is not in the cache: the fields of its key in which the nearest entry differs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.store import Store

# In `Entry.about`: the kernel's name, and what decided its source (JSON of names and values).
NAME, GENERATED_WITH = "name", "generated with"
_SOURCE = "source"
_LONGEST_VALUE = 100
# Entries that are looked at to explain a miss that is no error: a fifth of a second.
_MOST_ENTRIES = 2000
NEW = "not compiled before"


@dataclass(frozen=True)
class Miss:
    """A kernel called `name` of which there was no entry of `key`, and which was compiled."""

    key: Key
    name: str


# Those of this process, in order.
_misses: list[Miss] = []


def remember(key: Key, name: str) -> None:
    """Called for each kernel that is compiled because the cache has none of `key`."""
    _misses.append(Miss(key, name))


def since(start: int = 0) -> list[Miss]:
    """The misses of this process but the first `start`."""
    return _misses[start:]


def reasons(store: Store, misses: Iterable[Miss], generated_with: Mapping[str, str]) -> list[str]:
    """Why `store` had no entry for each of `misses`, in their order: another field of the key where the same source was
    kept, other settings where a kernel of that name was, else `NEW`. Cheaper than `explain`: of what is kept only what
    was used last is looked at.
    """
    misses = list(misses)
    if not misses:
        return []
    since_then = {miss.key.digest for miss in misses}
    by_source: dict[str, list[Key]] = {}
    by_name: dict[str | None, list[list[str]]] = {}
    for key, about in store.headers(misses[0].key.kind, _MOST_ENTRIES):
        if key.digest not in since_then:
            by_source.setdefault(key.fields[_SOURCE], []).append(key)
            settings = changes(generated_with, json.loads(about.get(GENERATED_WITH, "{}")))
            by_name.setdefault(about.get(NAME), []).append(settings)
    found = []
    for miss in misses:
        same = by_source.setdefault(miss.key.fields[_SOURCE], [])
        settings = min(by_name.get(miss.name, [[]]), key=len)
        if same:
            nearest = min(same, key=lambda key: len(miss.key.differences(key)))
            found.append(f"compiled before with another {'; '.join(_differences(miss.key, nearest))}")
        else:
            found.append(f"one of that name was generated with another {'; '.join(settings)}" if settings else NEW)
        same.append(miss.key)
    return found


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
    told = _differences(key, nearest.key)
    if _SOURCE in differences:
        before = json.loads(nearest.about.get(GENERATED_WITH, "{}"))
        told += changes(generated_with, before)
    return f"the nearest entry, {nearest.about.get(NAME, nearest.key.digest[:12])}, differs in {'; '.join(told)}"


def changes(now: Mapping[str, str], before: Mapping[str, str]) -> list[str]:
    """Each field in which `now` and `before` differ, with both values."""
    names = sorted({*now, *before})
    return [_told(name, now.get(name), before.get(name)) for name in names if now.get(name) != before.get(name)]


def _differences(key: Key, other: Key) -> list[str]:
    return [_told(field, key.fields.get(field), other.fields.get(field)) for field in key.differences(other)]


def _told(field: str, now: str | None, before: str | None) -> str:
    pairs = enumerate(zip(now or "", before or "", strict=False))
    common = next((place for place, (one, other) in pairs if one != other), 0)
    return f"{field} ({_short(now, common)} here, {_short(before, common)} there)"


def _short(value: str | None, common: int) -> str:
    """`value`; of a long one the part around where it differs from another, with which it has `common` characters."""
    if value is None:
        return "absent"
    if len(value) <= _LONGEST_VALUE:
        return value
    start = max(0, min(common - _LONGEST_VALUE // 4, len(value) - _LONGEST_VALUE))
    end = start + _LONGEST_VALUE
    return ("..." if start else "") + value[start:end] + ("..." if end < len(value) else "")
