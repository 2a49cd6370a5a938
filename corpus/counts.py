"""`python -m corpus.counts`: do we make more kernels of a graph than Inductor's own Triton backend?

Each graph that a program compiles is lowered and scheduled twice, on tensors of `npu`: once with Inductor's own classes
(TritonScheduling, PythonWrapperCodegen), whose code is counted and dropped, and once with ours, which then runs. Both
see the same device: its number of cores decides which reductions are split. Features of Inductor for CUDA alone do not
count: reductions of mixed order, which fuse the two sums of a backward norm from five million elements on, and
templates of matrix products. So neither do our kernels of the cube: products are library calls on both sides.
"""

from __future__ import annotations

import copy
import csv
import functools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Annotated, Any
from unittest import mock

import typer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from corpus.check import program_names
from corpus.collecting import in_processes, program_called
from corpus.table import FOLDER
from inductor_npu.providers import DEFAULT_TARGET


@dataclass(frozen=True)
class Count:
    """Launches of Triton kernels in the graphs of one program, each graph once: by stock Inductor and by ours. `error`:
    why the program ended early.
    """

    program: str
    stock: int
    ours: int
    error: str = ""


class _Counted(BaseException):
    """The code of a graph is complete. Not an Exception: Inductor would wrap that in its own."""


def count(name: str) -> Count:
    """Runs one program in this process."""
    from inductor_npu.ascend.collect.afresh import compiled_afresh

    counts = {"stock": 0, "ours": 0}
    error = ""
    with compiled_afresh(), _counting(counts):
        try:
            program_called(name)()
        except Exception as failure:  # noqa: BLE001 - it is the program's, and the table says it
            error = f"{type(failure).__name__}: {' '.join(str(failure).split())}"[:160]
    return Count(name, counts["stock"], counts["ours"], error)


@contextmanager
def _counting(counts: dict[str, int]) -> Iterator[None]:
    """Adds to `counts` what is made of each graph that is compiled inside."""
    from torch._inductor import compile_fx, config
    from torch._inductor.codegen.common import init_backend_registration
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.codegen.wrapper import PythonWrapperCodegen

    from inductor_npu import config as npu_config
    from inductor_npu.codegen.scheduling.npu_scheduling import NpuScheduling
    from inductor_npu.codegen.wrapper.npu_wrapper import NpuWrapper

    init_backend_registration()  # of all other devices, once in a process: not inside `_backend`
    stock = _counting_wrapper(PythonWrapperCodegen, lambda: _add(counts, "stock"), dropped=True)
    ours = _counting_wrapper(NpuWrapper, lambda: _add(counts, "ours"), dropped=False)

    def compile_twice(graph: Any, inputs: Any, **options: Any) -> Any:
        with _backend(TritonScheduling, stock), config.patch(compile_threads=1), suppress(_Counted):
            compile_fx.compile_fx_inner(copy.deepcopy(graph), inputs, **options)
        with _backend(NpuScheduling, ours):
            return compile_fx.compile_fx_inner(graph, inputs, **options)

    compiler = functools.partial(compile_fx.compile_fx, inner_compile=compile_twice)
    with mock.patch.object(compile_fx, "compile_fx", compiler), npu_config.patch(templates="none"):
        yield


def _add(counts: dict[str, int], which: str) -> None:
    counts[which] += 1


def _backend(scheduling: type, wrapper: type) -> Any:
    """A context in which the device has these classes."""
    from torch._inductor.codegen import common

    return mock.patch.dict(common.device_codegens, {"npu": common.DeviceCodegen(scheduling, wrapper)})


def _counting_wrapper(base: type[Any], launched: Callable[[], None], dropped: bool) -> type[Any]:
    """`base`, calling `launched` for each launch of a Triton kernel; code that is `dropped` ends with _Counted."""

    class Counting(base):
        @staticmethod
        def create(is_subgraph: bool, *arguments: Any, **keywords: Any) -> Any:
            if is_subgraph:
                return base.create(is_subgraph, *arguments, **keywords)
            return Counting()

        def generate_kernel_call(self, *arguments: Any, triton: bool = True, **keywords: Any) -> None:
            if triton:
                launched()
            super().generate_kernel_call(*arguments, triton=triton, **keywords)

        def generate(self, is_inference: bool) -> Any:
            result = super().generate(is_inference)
            if dropped:
                raise _Counted
            return result

    return Counting


# The table in git and the command


def path_of(target: str) -> Path:
    return FOLDER / f"counts-{target}.tsv"


def write(target: str, counts: Iterable[Count]) -> None:
    """One line a program that launches a kernel."""
    with path_of(target).open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(field.name for field in fields(Count))
        writer.writerows(astuple(one) for one in counts if one.stock or one.ours or one.error)


def more(counts: Iterable[Count]) -> list[Count]:
    """The programs of which we make more kernels, the largest difference first."""
    return sorted((one for one in counts if one.ours > one.stock), key=lambda one: one.stock - one.ours)


def summarise(console: Console, counts: Sequence[Count]) -> None:
    """Prints the sums, and the programs of which we make more kernels."""
    stock, ours = sum(one.stock for one in counts), sum(one.ours for one in counts)
    fewer = sum(one.ours < one.stock for one in counts)
    words = f"{len(counts)} programs: stock Inductor launches {stock} kernels, we {ours}"
    console.print(f"{words}; more of {len(more(counts))} programs, fewer of {fewer}", highlight=False)
    table = Table("Program", "stock", "ours")
    for one in more(counts):
        table.add_row(one.program, str(one.stock), str(one.ours))
    if table.row_count:
        console.print(table)


def main(
    target: Annotated[str, typer.Option(help="The chip.")] = DEFAULT_TARGET,
    only: Annotated[str, typer.Option(help="Only programs whose name begins so.")] = "",
    every: Annotated[int, typer.Option(min=1, help="Only every so manyth of them.")] = 1,
    jobs: Annotated[int, typer.Option(help="Programs at a time.")] = len(os.sched_getaffinity(0)),
    accept: Annotated[bool, typer.Option("--accept", help="Write the result as the table in git.")] = False,
) -> None:
    """Counts the kernels of each program, as stock Inductor makes them and as we do."""
    console = Console()
    names = [name for name in program_names(False, target) if name.startswith(only)][::every]
    found = track(in_processes(count, names, target, jobs), "counting", total=len(names), console=console)
    by_name = {one.program: one for one in found}
    counts = [by_name[name] for name in names]
    summarise(console, counts)
    if accept:
        write(target, counts)


if __name__ == "__main__":
    typer.run(main)
