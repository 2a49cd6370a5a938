"""Linting files: kernels of a Python file, or the kernel of a `.ttir` file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from inductor_npu.errors import LintFileError
from inductor_npu.simulator.triton_backend.ttir.lexer import ParseError
from inductor_npu.simulator.triton_backend.ttir.passes import RecursionNotSupportedError

from .kernel import Kernel
from .linting import LintedKernel, lint_kernel
from .source import lint_source


def lint_file(path: Path, arguments: Mapping[str, str] | None = None) -> list[LintedKernel]:
    """Lints the kernels of a Python file, or the kernel of a `.ttir` file.

    arguments: types and values of kernels' arguments by name, as texts: "*bf16", "i64", "128". Of the others they are
    guessed; each guess is an assumption of the result. The file is not run: docs/ascend.md says what of it is.

    Raises LintFileError for a file that is not there, cannot be read or parsed, or holds no kernel.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise LintFileError(file=path, reason="there is no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise LintFileError(file=path, reason=f"it cannot be read: {error}") from error
    if path.suffix == ".ttir":
        return [_linted_ttir(path, text)]
    return lint_source(path, text, dict(arguments or {}))


def _linted_ttir(path: Path, text: str) -> LintedKernel:
    try:
        kernel = Kernel(text)
    except (ParseError, RecursionNotSupportedError, ValueError) as error:
        raise LintFileError(file=path, reason=f"it is no TTIR that can be read: {error}") from error
    return LintedKernel(kernel.name, lint_kernel(kernel))
