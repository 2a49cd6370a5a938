"""Check a function or a program: collect its kernels, compile them for a chip, say what became of each."""

from __future__ import annotations

import contextlib
import itertools
import platform
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from inductor_npu.ascend.collect.afresh import compiled_afresh
from inductor_npu.ascend.collect.collection import Collection
from inductor_npu.ascend.collect.collector import collecting
from inductor_npu.ascend.collect.function import run_compiled
from inductor_npu.ascend.collect.program import DATA_LIMIT, run_program
from inductor_npu.ascend.compilation import compile_kernels
from inductor_npu.ascend.environment import AscendEnvironment, find_environment
from inductor_npu.ascend.report.build import make_row
from inductor_npu.ascend.report.model import sorted_by_cost
from inductor_npu.ascend.report.report import Report
from inductor_npu.errors import OtherTargetError
from inductor_npu.providers import DEFAULT_TARGET, current_target
from inductor_npu.setup import autoload
from inductor_npu.target import get_target
from inductor_npu.version import __version__

OnDone = Callable[[str, int, int], None]  # (what is done to the kernels, how many are done, of how many)


def check(
    function: Any,
    *args: Any,
    target: str | None = None,
    run: bool = False,
    backward: bool = True,
    jobs: int | None = None,
    **kwargs: Any,
) -> Report:
    """Calls `function` once in this process and checks the kernels that it launches on device `npu`.

    A function or torch.nn.Module with arguments is compiled, and copies of its tensors are moved to `npu`; where the
    result needs gradients the backward pass runs too, unless `backward` is False. A function without arguments is
    called as it is. Compiled graphs are compiled anew for it, and again when they are next called. Under Triton 3.2,
    kernels that the user launches are seen only if this process has not launched them before.

    target: a chip (default: the process's own, INDUCTOR_NPU_TARGET). run: also run what Ascend's compiler understood of
    each kernel on its inputs, and compare. jobs: kernels that are compiled at a time (default: one a core).

    Raises the errors of `find_environment`, OtherTargetError if kernels are generated for another chip in this process.
    """
    own = current_target().name
    if target is not None and target != own:
        raise OtherTargetError(target=target, own=own)
    environment = find_environment()
    environment.check_target(own)
    autoload.enable("simulator")
    from inductor_npu import config  # imports torch

    with tempfile.TemporaryDirectory(prefix="inductor-npu-check-") as name:
        folder = Path(name)
        with (
            compiled_afresh(),
            collecting(folder, DATA_LIMIT if run else None),
            config.patch(tune_by="model"),  # for the chip, not by this host's times
        ):
            if args or kwargs:
                run_compiled(function, args, kwargs, backward)
            else:
                function()
        title = getattr(function, "__qualname__", type(function).__qualname__)
        return report_on(Collection.load(folder), title, own, environment, jobs=jobs, data=folder if run else None)


def check_program(
    program: str,
    arguments: Sequence[str] = (),
    *,
    target: str = DEFAULT_TARGET,
    run: bool = False,
    backward: bool = True,
    is_module: bool = False,
    jobs: int | None = None,
    folder: Path | None = None,
    on_done: OnDone | None = None,
) -> Report:
    """Runs a program in a process of its own and checks its kernels: up to its end, or where it fails.

    program: a script's path, `path.py::function`, `package.module:function`, or a module's name with `is_module`;
    docs/ascend.md says how a function gets its inputs. folder: where kernels and data are kept (default: nowhere). How
    the program ended is `Report.status`.
    The other arguments are those of `check`; `on_done` is told how many kernels of how many are compiled.

    Raises the errors of `find_environment` before the program runs, NoProgramError, UnknownAscendTargetError.
    """
    environment = find_environment()
    environment.check_target(target)
    get_target(target)
    with contextlib.ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="inductor-npu-check-")))
        folder.mkdir(parents=True, exist_ok=True)
        limit = DATA_LIMIT if run else None
        done = run_program(program, arguments, target, folder, is_module=is_module, data_limit=limit, backward=backward)
        title = " ".join([*(["-m"] if is_module else []), program, *arguments])
        return report_on(
            done.collection,
            title,
            target,
            environment,
            status=done.status,
            jobs=jobs,
            data=folder if run else None,
            on_done=on_done,
        )


def report_on(
    collection: Collection,
    program: str,
    target: str,
    environment: AscendEnvironment,
    *,
    status: int | None = None,
    jobs: int | None = None,
    data: Path | None = None,
    on_done: OnDone | None = None,
) -> Report:
    """Compiles the kernels of `collection` for the chip `target` and describes them; runs them too where `data`, the
    folder of a collection with data, is given.
    """
    chip = get_target(target)
    kernels = collection.kernels
    sources = [kernel.source for kernel in kernels]
    count = _counter("Compiling with Ascend's compiler", len(kernels), on_done)
    compilations = compile_kernels(sources, target, environment=environment, jobs=jobs, on_done=count)
    rows = [make_row(kernel, compilation, chip) for kernel, compilation in zip(kernels, compilations, strict=True)]
    if data is not None and kernels:
        from inductor_npu.ascend.execute import run_kernels

        count = _counter("Running what it understood", len(kernels), on_done)
        agreements = run_kernels(kernels, compilations, data, environment=environment, jobs=jobs, on_done=count)
        rows = [replace(row, agreement=agreement) for row, agreement in zip(rows, agreements, strict=True)]
    return Report(
        program=program,
        target=target,
        rows=sorted_by_cost(rows),
        omissions=tuple(collection.omissions),
        versions=_versions(environment),
        unified_buffer=chip.unified_buffer,
        status=status,
        advice=None if kernels or collection.omissions else collection.advice(),
        arithmetic=collection.arithmetic,
    )


def _counter(what: str, total: int, on_done: OnDone | None) -> Callable[[int, Any], None]:
    """A callback that counts how many kernels are done, from none."""
    numbers = itertools.count(1)
    if on_done is not None:
        on_done(what, 0, total)

    def count(_index: int, _result: Any) -> None:
        if on_done is not None:
            on_done(what, next(numbers), total)

    return count


def _versions(environment: AscendEnvironment) -> dict[str, str]:
    """What made the report: this package, its torch, and Ascend's compiler."""
    import torch

    compiler = {name: environment.versions[name] for name in ("triton-ascend", "ascendnpu-ir")}
    return {
        "inductor-npu": __version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        **compiler,
    }
