"""`python -m corpus.reuse`: what kernels with products move against the least for their tile, and how busy the cube is.

A tile reads its operands once and writes its result once: that, times the number of tiles, is the least that a kernel
with this tile can move. The header of a kernel says both numbers; the bytes and cycles are of the compiled kernel, as
`inductor-npu check` counts them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from corpus.check import distinct_kernels, program_names
from corpus.collecting import collect
from inductor_npu.ascend.compilation import compile_kernels
from inductor_npu.ascend.environment import find_environment
from inductor_npu.ascend.report.build import make_row
from inductor_npu.providers import DEFAULT_TARGET
from inductor_npu.target import get_target

FAMILIES = ("product/", "attention/", "convolution/")
MOST_BYTES = 1.15  # of the least for the tile
LEAST_BUSY = 0.8  # of the launch, where the cube bounds it
_HEADER = re.compile(r"moves ([\d.]+) KiB a tile\n\s*# (\d+) tiles?, on")
_WORST = 12


@dataclass(frozen=True)
class Reuse:
    """A kernel of `program`: what it moves, as a multiple of the least for its tiles (None where that depends on sizes
    or data), and the share of its launch that the cube works, where that is what bounds it (else None).
    """

    program: str
    kernel: str
    bytes: float | None
    busy: float | None


def reuse_of(programs: Sequence[str], target: str, jobs: int) -> Iterator[Reuse]:
    """The kernels with products of `programs`, each once. Raises the errors of `find_environment`."""
    environment = find_environment()
    environment.check_target(target)
    chip = get_target(target)
    kernels = {
        (collected.program, number): kernel
        for collected in collect(programs, target, jobs, lambda: None)
        for number, kernel in enumerate(collected.collection.kernels)
        if "tl.dot" in kernel.source.text
    }
    places = list(distinct_kernels(kernels).values())
    sources = [kernels[place].source for place in places]
    compilations = compile_kernels(sources, target, environment=environment, jobs=jobs)
    for place, compilation in zip(places, compilations, strict=True):
        kernel = kernels[place]
        row = make_row(kernel, compilation, chip)
        least = least_for_tiles(kernel.source.text)
        moved = row.bytes_moved
        busy = row.busy.get("cube") if row.bound == "cube" else None
        yield Reuse(place[0], row.kernel, moved / least if moved and least else None, busy)


def least_for_tiles(source: str) -> float | None:
    """The bytes that all tiles of the kernel `source` move, by its header; None where that depends on sizes."""
    found = _HEADER.search(source)
    return None if found is None else float(found[1]) * 1024 * int(found[2])


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    only: Annotated[str, typer.Option(help="Only programs whose name begins so.")] = "",
    jobs: Annotated[int, typer.Option(help="Programs at a time.")] = len(os.sched_getaffinity(0)),
) -> None:
    """Prints how many kernels meet both goals, and the worst."""
    names = [name for name in program_names(False, target) if name.startswith(FAMILIES) and name.startswith(only)]
    found = list(reuse_of(names, target, jobs))
    moved = sorted(((one.bytes, one) for one in found if one.bytes is not None), key=lambda pair: -pair[0])
    busy = sorted(((one.busy, one) for one in found if one.busy is not None), key=lambda pair: pair[0])
    console = Console()
    within = sum(ratio <= MOST_BYTES for ratio, _ in moved)
    console.print(f"bytes: {within} of {len(moved)} kernels move at most {MOST_BYTES} of the least for their tile")
    working = sum(share >= LEAST_BUSY for share, _ in busy)
    console.print(f"cycles: in {working} of {len(busy)} that the cube bounds it works {LEAST_BUSY:.0%} of the launch")
    table = Table("Program", "kernel", "bytes", "cube")
    for _, one in [*moved[:_WORST], *busy[:_WORST]]:
        cells = ("" if value is None else f"{value:.2f}" for value in (one.bytes, one.busy))
        table.add_row(one.program, one.kernel, *cells)
    console.print(table)


if __name__ == "__main__":
    typer.run(main)
