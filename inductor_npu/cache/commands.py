"""The commands `inductor-npu cache ...`: what is in the compile cache, and looking after it."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from enum import Enum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from inductor_npu.cache import bundle
from inductor_npu.cache.entry import Entry
from inductor_npu.cache.location import stores
from inductor_npu.cache.misses import NAME
from inductor_npu.cache.store import Listed
from inductor_npu.errors import BundleError
from inductor_npu.support import terminal

app = typer.Typer(help="Look into the compile cache, and after it.", no_args_is_help=True)
DAMAGED, BAD_CALL = 1, 2  # exit statuses
_SHOWN_DIGITS = 12
_MIB = 2**20


class Kind(str, Enum):
    """What entries are of; docs/cache.md says more of each."""

    KERNEL = "kernel"
    TILE = "tile"
    VERDICT = "verdict"
    RUN = "run"
    WARMUP = "warmup"
    LIBRARY = "library"


OfKind = Annotated[Kind | None, typer.Option(help="Only entries of this kind.")]
BundleFile = Annotated[Path, typer.Argument(metavar="FILE", help="The bundle.")]


@app.command()
def info() -> None:
    """Where the cache is, what is in it by kind, and how large it may grow."""
    console = terminal.output()
    for store in stores():
        listed = list(store.listed())
        console.print(f"{store.folder}", highlight=False, soft_wrap=True)
        console.print(
            f"  {len(listed)} entries, {_mib(listed)} of at most {store.limit / _MIB:.0f} MiB", highlight=False
        )
        numbers = Counter(each.kind for each in listed)
        for kind, number in sorted(numbers.items()):
            of_kind = [each for each in listed if each.kind == kind]
            console.print(f"  {kind}: {number}, {_mib(of_kind)}", highlight=False)


@app.command("list")
def list_entries(
    kind: OfKind = None,
    fields: Annotated[bool, typer.Option("--fields", help="Show each field of each key.")] = False,
) -> None:
    """Each entry: kind, name, size, last use; the one that was used last comes first."""
    console = terminal.output()
    found = [pair for store in stores() for pair in store.entries() if kind in (None, pair[0].kind)]
    headers = ("kind", "entry", "name", "KiB", "last used", *(["fields"] if fields else []))
    table = Table(*terminal.whole(*headers), box=None)
    for listed, entry in sorted(found, key=lambda pair: -pair[0].used):
        row = [
            listed.kind,
            listed.digest[:_SHOWN_DIGITS],
            _name(entry),
            f"{listed.size / 1024:.0f}",
            _when(listed.used),
        ]
        table.add_row(*row, *([_fields(entry)] if fields else []))
    console.print(table, highlight=False)


@app.command()
def verify(
    remove: Annotated[bool, typer.Option("--remove", help="Remove the damaged ones.")] = False,
) -> None:
    """Check every entry's format, checksum and key. Exit status 1 if one is damaged."""
    console = terminal.output()
    good = damaged = 0
    for store in stores():
        for listed, entry in store.entries():
            if isinstance(entry, Entry):
                good += 1
                continue
            damaged += 1
            console.print(f"{listed.path}: {entry}", style="red", markup=False, highlight=False, soft_wrap=True)
            if remove:
                listed.path.unlink(missing_ok=True)
    console.print(f"{good} entries are good, {damaged} damaged{' and removed' if remove and damaged else ''}")
    raise typer.Exit(DAMAGED if damaged and not remove else 0)


@app.command()
def prune(
    mib: Annotated[
        int | None, typer.Option(min=0, help="How many MiB to leave (default: INDUCTOR_NPU_CACHE_MIB, or 1024).")
    ] = None,
) -> None:
    """Remove entries that were not used for longest, and what killed processes left. What was used within the last
    minute stays.
    """
    for store in stores():
        removed, size = store.prune(None if mib is None else mib * _MIB)
        terminal.output().print(f"{store.folder}: removed {removed} entries, {size / _MIB:.1f} MiB", soft_wrap=True)


@app.command()
def clear(kind: OfKind = None) -> None:
    """Remove all entries, or those of one kind. Inductor's own caches stay."""
    for store in stores():
        terminal.output().print(f"{store.folder}: removed {store.clear(kind)} entries", soft_wrap=True)


@app.command("export")
def export_bundle(
    file: BundleFile,
    verdicts: Annotated[bool, typer.Option("--verdicts", help="Verdicts of Ascend's compiler, too.")] = False,
) -> None:
    """Write kernels and tiles, with the graphs in Inductor's caches, to one file that another machine can import."""
    try:
        carried = bundle.export_to(file, [*bundle.KINDS, *(["verdict"] if verdicts else [])])
    except OSError as error:
        raise _bad_call(error) from error
    terminal.output().print(f"{file}: {_carried(carried)}, {file.stat().st_size / _MIB:.1f} MiB", soft_wrap=True)


@app.command("import")
def import_bundle(file: BundleFile) -> None:
    """Put what another machine exported into this user's caches. A bundle is code: import it from whom you trust."""
    try:
        carried = bundle.import_from(file)
    except (BundleError, OSError) as error:
        raise _bad_call(error) from error
    terminal.output().print(f"{file}: {_carried(carried)}", soft_wrap=True)
    raise typer.Exit(DAMAGED if carried.damaged else 0)


def _bad_call(error: Exception) -> typer.Exit:
    Console(stderr=True).print(f"inductor-npu: {error}", style="bold red", markup=False, highlight=False)
    return typer.Exit(BAD_CALL)


def _carried(carried: bundle.Carried) -> str:
    text = f"{carried.entries} entries and {carried.graphs} files of Inductor's caches"
    return f"{text}; {carried.damaged} damaged ones were left out" if carried.damaged else text


def _mib(listed: Iterable[Listed]) -> str:
    return f"{sum(each.size for each in listed) / _MIB:.1f} MiB"


def _name(entry: Entry | Exception) -> str:
    if not isinstance(entry, Entry):
        return f"damaged: {entry}"
    return entry.about.get(NAME) or entry.key.fields.get("kernel", "")[:_SHOWN_DIGITS]


def _fields(entry: Entry | Exception) -> str:
    return ", ".join(f"{name}={value}" for name, value in entry.key.fields.items()) if isinstance(entry, Entry) else ""


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
