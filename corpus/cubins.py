"""`python -m corpus.cubins`: does every kernel of the corpus become code for a GPU, and do its tiles stay in registers?

Kernels are generated for the GPU's facts, run once on the embedded NPU, and compiled by provider `cuda`'s backend. No
GPU is needed.
"""

from __future__ import annotations

import importlib.util
import re
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import track

from corpus.collecting import all_names, collect
from inductor_npu.ascend.kernel import Constant, KernelSource

_USAGE = re.compile(r"REG:(\d+) STACK:\d+ SHARED:\d+ LOCAL:(\d+)")


@dataclass(frozen=True)
class Cubin:
    """A kernel as compiled: registers of a thread, bytes of its memory for what registers do not hold, bytes of shared
    memory of a program.
    """

    warps: int
    tile: int
    registers: int
    spilled: int
    shared: int


def cubin_of(source: KernelSource, target: str, folder: Path) -> Cubin:
    """Compiles `source` for the GPU `target`. Raises what Triton raises."""
    from triton.compiler import ASTSource

    from inductor_npu.cuda.triton_backend.compiler import largest_tile

    function = getattr(_loaded(source, folder), source.name)
    assert function.cache_key, "what a launch asks first: it reads what the kernel calls"
    types = {name: source.signature.get(name, "constexpr") for name in function.arg_names}
    constants = {name: _constant(value) for name, value in source.constants.items()}
    divisible = {(function.arg_names.index(name),): [["tt.divisibility", 16]] for name in source.divisible}
    kernel = _compiled(ASTSource(function, types, constants, divisible), target, source.options)
    registers, spilled = _usage(kernel.kernel, folder / "kernel.cubin")
    tile = largest_tile(kernel.asm["ttir"])
    return Cubin(kernel.metadata.num_warps, tile, registers, spilled, kernel.metadata.shared)


def _compiled(source: Any, target: str, options: dict[str, Constant]) -> Any:
    import triton
    from triton import backends
    from triton.backends.compiler import GPUTarget

    from inductor_npu.cuda.triton_backend import selection

    if backends.backends["npu"].compiler.__module__ != f"{selection.__package__}.compiler":
        selection.install()
    return triton.compile(source, target=GPUTarget("npu", target, 32), options=options)


def _loaded(source: KernelSource, folder: Path) -> ModuleType:
    path = folder / f"kernel_{source.key}.py"
    path.write_text(source.text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _constant(value: Constant) -> Any:
    """A constant as Triton takes it: dtypes come as their names, "tl.float32"."""
    import triton.language as tl

    return getattr(tl, value.removeprefix("tl.")) if isinstance(value, str) and value.startswith("tl.") else value


def _usage(cubin: bytes, path: Path) -> tuple[int, int]:
    import triton

    path.write_bytes(cubin)
    tool = Path(triton.__file__).parent / "backends/nvidia/bin/cuobjdump"
    found = _USAGE.search(subprocess.run([tool, "-res-usage", path], check=True, capture_output=True, text=True).stdout)
    assert found is not None, "a cubin without a kernel"
    return int(found[1]), int(found[2])


def main(
    target: Annotated[str, typer.Option(help="The GPU.")] = "H100",
    every: Annotated[int, typer.Option(help="Takes one of so many programs.")] = 1,
    jobs: Annotated[int, typer.Option(help="Processes that run programs.")] = 1,
) -> None:
    """Prints each kernel that does not compile or spills, then a summary."""
    console = Console(soft_wrap=True)
    collected = collect(all_names(target)[::every], target, jobs, lambda: None)
    sources = {
        kernel.source.key: (one.program, kernel.source) for one in collected for kernel in one.collection.kernels
    }
    refused, cubins = 0, []
    with tempfile.TemporaryDirectory() as folder:
        for program, source in track(sources.values(), console=console, transient=True):
            try:
                cubin = cubin_of(source, target, Path(folder))
            except Exception as error:  # noqa: BLE001 - it is the kernel's, and the line says it
                refused += 1
                console.print(f"{program} {source.name}: {type(error).__name__}: {str(error).strip()[-300:]}")
                continue
            cubins.append(cubin)
            if cubin.spilled:
                console.print(f"{program} {source.name}: {cubin}")
    console.print(f"{len(sources)} kernels, {refused} refused, {sum(bool(c.spilled) for c in cubins)} spill")
    for line in _by_warps(cubins):
        console.print(line)


def _by_warps(cubins: Iterable[Cubin]) -> Iterable[str]:
    """How many registers kernels of each number of warps take."""
    of: dict[int, list[int]] = {}
    for cubin in cubins:
        of.setdefault(cubin.warps, []).append(cubin.registers)
    for warps, registers in sorted(of.items()):
        registers.sort()
        middle, most = registers[len(registers) // 2], registers[-1]
        yield f"{warps} warps: {len(registers)} kernels, {middle} registers (median), {most} (most)"


if __name__ == "__main__":
    typer.run(main)
