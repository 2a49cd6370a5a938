"""The command `inductor-npu`."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from inductor_npu.cache import commands
from inductor_npu.errors import NpuError, NpuWarning
from inductor_npu.providers import DEFAULT_TARGET
from inductor_npu.support import terminal
from inductor_npu.support.units import bytes_text

if TYPE_CHECKING:
    from inductor_npu.ascend.report import Report

app = typer.Typer(
    help="inductor-npu: what an NPU's own compiler makes of your model, without the NPU.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(commands.app, name="cache")
BAD_KERNELS, BAD_CALL = 3, 2  # exit statuses of our own; a program's own status is passed on
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False, "soft_wrap": True}
FOUND = 1  # the exit status of a lint that found something


class FailOn(str, Enum):
    """Verdicts that make the exit status 3, each with those that are worse."""

    NEVER = "never"
    REFUSED = "refused"
    SCALAR = "scalar"
    ELEMENT_DMA = "element-dma"


_FAILING = {
    FailOn.NEVER: (),
    FailOn.REFUSED: ("refused",),
    FailOn.SCALAR: ("refused", "unknown", "scalar"),
    FailOn.ELEMENT_DMA: ("refused", "unknown", "scalar", "element DMA"),
}


class LintFailOn(str, Enum):
    """Severities that make the exit status 1, each with those that are worse."""

    NEVER = "never"
    WRONG = "wrong"
    REFUSED = "refused"
    SCALAR = "scalar"
    ELEMENT_DMA = "element-dma"
    SLOW = "slow"


@app.command(
    context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "allow_interspersed_args": False}
)
def check(
    context: typer.Context,
    program: Annotated[
        str | None,
        typer.Argument(help="A script, path.py::function, or package.module:function; its own arguments follow."),
    ] = None,
    module: Annotated[
        str | None, typer.Option("-m", metavar="MODULE", help="Run this module as a program, as python -m does.")
    ] = None,
    target: Annotated[str, typer.Option(help="The chip to compile for.")] = DEFAULT_TARGET,
    run: Annotated[
        bool,
        typer.Option("--run", help="Also run what Ascend's compiler understood, and compare with the embedded NPU."),
    ] = False,
    backward: Annotated[
        bool,
        typer.Option("--backward/--no-grad", help="For a function: run the backward pass too, or no gradients at all."),
    ] = True,
    fail_on: Annotated[
        FailOn, typer.Option(help="Exit with status 3 if a kernel has this verdict or a worse one.")
    ] = FailOn.REFUSED,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the report as one HTML page.")] = None,
    keep: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Keep the collected kernels, with --run their data, in this folder."),
    ] = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="Kernels compiled at a time (default: one a core).")] = None,
) -> None:
    """Run a program and show what Ascend's compiler makes of each of its kernels.

    The program runs on the embedded NPU; its output goes through. Options stand before the program, its arguments
    after it.

    Exit status: 0 if all is well; 3 if a kernel has a verdict that --fail-on names, or with --run wrong results; the
    program's own if it failed; 1 if it launched no kernel; 2 if the check itself was not possible.
    """
    name, arguments = _program(program, module, context.args)
    console, errors = terminal.output(), Console(stderr=True)
    with _plain_errors(errors):
        from inductor_npu.ascend.checking import check_program

        with _progress(errors) as on_done:
            report = check_program(
                name,
                arguments,
                target=target,
                run=run,
                backward=backward,
                is_module=module is not None,
                jobs=jobs,
                folder=keep,
                on_done=on_done,
            )
        _show(report, console, errors, json, html)
    raise typer.Exit(_exit_status(report, fail_on))


def _program(program: str | None, module: str | None, more: Sequence[str]) -> tuple[str, list[str]]:
    """What is to run, and its arguments. Raises typer.BadParameter where nothing is."""
    name = module or program
    if name is None:
        raise typer.BadParameter("give a program: a script, path.py::function, package.module:function, or -m MODULE")
    return name, [program, *more] if module is not None and program is not None else [*more]


@app.command()
def lint(
    files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Python files with Triton kernels, or TTIR.")],
    argument: Annotated[
        list[str] | None,
        typer.Option(
            "--with", metavar="NAME=TYPE", help="The type (x=*bf16) or value (TILE=256) of a kernel's argument."
        ),
    ] = None,
    fail_on: Annotated[
        LintFailOn, typer.Option(help="Exit with status 1 on a finding of this severity or a worse one.")
    ] = LintFailOn.REFUSED,
    json: Annotated[Path | None, typer.Option(metavar="FILE", help="Write the findings as JSON.")] = None,
) -> None:
    """Name what Ascend's compiler makes wrong, slow or nothing of in Triton kernels, and what to write instead.

    Neither runs the files nor needs Ascend's compiler. Types that nobody gives are guessed, and said.

    Exit status: 0 if all is well; 1 on a finding that --fail-on names; 2 if a file or a kernel could not be linted.
    """
    console, errors = Console(soft_wrap=True), Console(stderr=True)
    with _plain_errors(errors):
        from inductor_npu.ascend.lint import lint_file
        from inductor_npu.ascend.lint.output import as_json, render

        given = _given(argument or [])
        linted = [(path, lint_file(path, given)) for path in files]
        if json is not None:
            json.write_text(as_json(linted), encoding="utf-8")
        console.print(render(linted), highlight=False)
    kernels = [kernel for _, found in linted for kernel in found]
    if any(_is_failing(finding.about.severity.value, fail_on) for kernel in kernels for finding in kernel.findings):
        raise typer.Exit(FOUND)
    raise typer.Exit(BAD_CALL if any(kernel.failure is not None for kernel in kernels) else 0)


class Weights(str, Enum):
    """Where a package's weights are."""

    INSIDE = "inside"
    BESIDE = "beside"


@app.command()
def package(
    model: Annotated[
        str, typer.Argument(metavar="MODEL", help="path.py::name of a torch.nn.Module, or what makes one.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", metavar="FILE", help="The package, such as model.pt2.")],
    dynamic_batch: Annotated[
        bool, typer.Option("--dynamic-batch", help="The first size of each tensor varies.")
    ] = False,
    weights: Annotated[
        Weights, typer.Option(help="Inside the package, or in a .safetensors file beside it.")
    ] = Weights.INSIDE,
) -> None:
    """Export a model, compile it, and write all that is needed to run it into one file, which `inductor-npu run`,
    inductor_npu.load_package, torch._inductor.aoti_load_package and C++ programs load.

    NAME_example_inputs or example_inputs of the file is, or returns, example arguments; NAME_dynamic_shapes or
    dynamic_shapes says which sizes vary, as for torch.export. INDUCTOR_NPU_TARGET chooses the chip.

    Exit status: 0 if the package was written; 2 if the model cannot be packaged, in one line that says why.
    """
    with _plain_errors(Console(stderr=True)):
        from inductor_npu.export.from_file import load_model
        from inductor_npu.export.packaging import package as make_package

        found = load_model(model, dynamic_batch)
        make_package(
            found.module,
            found.args,
            found.kwargs,
            path=output,
            dynamic_shapes=found.dynamic_shapes,
            weights=weights.value,
        )
        terminal.output().print(f"{output}: {bytes_text(output.stat().st_size)}", highlight=False, soft_wrap=True)


@app.command()
def run(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A package.")],
    size: Annotated[
        list[str] | None, typer.Option(metavar="NAME=NUMBER", help="A size that varies (default: the example's).")
    ] = None,
    repeats: Annotated[int, typer.Option(min=1, help="Runs that are timed, after a first one.")] = 10,
    weights: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The weights of a package that has them beside it.")
    ] = None,
) -> None:
    """Load a package, run it on random numbers (integers are 0), and show inputs, results and times.

    Exit status: 0 if it ran; 2 if it is damaged, or does not fit this process, in one line that says why.
    """
    with _plain_errors(Console(stderr=True)):
        from inductor_npu.export.measuring import run_package

        try:
            measured = run_package(file, _sizes(size or []), repeats, weights)
        except ValueError as error:  # sizes that the model was not exported for
            raise NpuError(message=f"package {file}: {str(error).splitlines()[0]}") from error
        console = terminal.output()
        facts = measured.package.manifest
        console.print(f"{file}: for {facts['target']['name']}, made with torch {facts['versions']['torch']}", **_PLAIN)
        for kind, lines in (("input", measured.inputs), ("result", measured.results)):
            for line in lines:
                console.print(f"{kind} {line}", **_PLAIN)
        times = (("loading", measured.loading), ("first run", measured.first), ("median run", measured.median))
        console.print(", ".join(f"{name} {1e3 * seconds:.3f} ms" for name, seconds in times), **_PLAIN)


def _sizes(given: list[str]) -> dict[str, int]:
    """`NAME=NUMBER` texts as a dictionary."""
    sizes = {}
    for text in given:
        name, _, number = text.partition("=")
        if not name or not number.isdecimal():
            raise typer.BadParameter(f"{text}: give a size as NAME=NUMBER, such as s77=8")
        sizes[name] = int(number)
    return sizes


@app.command()
def doctor() -> None:
    """Show what of this machine decides whether torch.compile on `npu` is ours: who provides the device, versions and
    whether they are tested together, which Inductor and which Triton answer, compilers, cache, chip. What is off has a
    line of advice.

    A function is compiled and run in a process of its own, as a program does.

    Exit status: 0 if inductor-npu generates the code for npu, and it is right; 1 if not.
    """
    from inductor_npu.diagnostics.doctor.diagnosis import diagnose
    from inductor_npu.diagnostics.doctor.table import render

    findings = diagnose()
    terminal.output().print(render(findings), highlight=False)
    raise typer.Exit(any(finding.fatal for finding in findings))


def _given(arguments: list[str]) -> dict[str, str]:
    """`NAME=TYPE` texts as a dictionary."""
    from inductor_npu.ascend.lint.assumptions import is_argument

    given = dict(text.partition("=")[::2] for text in arguments)
    for name, value in given.items():
        if not name or not is_argument(value):
            examples = "NAME=TYPE (x=*fp32, n=i64) or NAME=VALUE (TILE=256, HAS_BIAS=True, DTYPE=tl.bfloat16)"
            raise typer.BadParameter(f"{name}={value}: give {examples}")
    return given


def _is_failing(severity: str, fail_on: LintFailOn) -> bool:
    order = [choice.value for choice in LintFailOn]  # from never and bad to good
    return order.index(severity.lower().replace(" ", "-")) <= order.index(fail_on.value)


def _show(report: Report, console: Console, errors: Console, json: Path | None, html: Path | None) -> None:
    from inductor_npu.ascend.report.table import render

    for path, make in ((json, report.to_json), (html, report.to_html)):
        if path is not None:
            path.write_text(make(), encoding="utf-8")
    console.print(render(report))
    if report.status:
        how = f"signal {-report.status}" if report.status < 0 else f"exit status {report.status}"
        errors.print(f"The program failed ({how}); this is what was checked until then.", style="bold red")


def _exit_status(report: Report, fail_on: FailOn) -> int:
    if report.status:
        return report.status if report.status > 0 else 128 - report.status
    if report.advice is not None:
        return 1
    wrong = fail_on is not FailOn.NEVER and any(row.is_wrong for row in report.rows)
    return BAD_KERNELS if wrong or any(row.verdict in _FAILING[fail_on] for row in report.rows) else 0


@contextlib.contextmanager
def _progress(console: Console) -> Iterator[Callable[[str, int, int], None]]:
    """A bar that appears when the first kernel is compiled, on a terminal only."""
    progress = terminal.progress(console, transient=True, disable=not console.is_terminal)
    task = progress.add_task("", total=None, visible=False)

    def on_done(what: str, done: int, total: int) -> None:
        if total:
            progress.start()
        progress.update(task, description=what, completed=done, total=total, visible=True)

    try:
        yield on_done
    finally:
        progress.stop()


@contextlib.contextmanager
def _plain_errors(console: Console) -> Iterator[None]:
    """Our own errors and warnings as a sentence, without a traceback."""

    default = warnings.showwarning

    def show(message: Warning | str, category: type[Warning], *place: Any, **rest: Any) -> None:
        if issubclass(category, NpuWarning):
            console.print(f"warning: {message}", style="yellow", markup=False, highlight=False)
        else:
            default(message, category, *place, **rest)

    with warnings.catch_warnings():
        warnings.showwarning = show
        try:
            yield
        except NpuError as error:
            console.print(f"inductor-npu: {error}", style="bold red", **_PLAIN)
            raise typer.Exit(BAD_CALL) from error


def main() -> None:
    """Entry point of the command."""
    app(prog_name="inductor-npu")


if __name__ == "__main__":
    main()
