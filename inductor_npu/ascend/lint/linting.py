"""Linting TTIR, and files of kernels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from inductor_npu.errors import LintFileError
from inductor_npu.simulator.triton_backend.ttir.lexer import ParseError
from inductor_npu.simulator.triton_backend.ttir.passes import RecursionNotSupportedError

from .checks import hits
from .kernel import Kernel
from .rules import RULES, SEVERITIES, Rule


@dataclass(frozen=True)
class LintFinding:
    """What a rule found: `what` exactly, at `file`:`line` of the kernel (None: the TTIR says no line)."""

    rule: str
    what: str
    file: str | None
    line: int | None

    @property
    def about(self) -> Rule:
        return RULES[self.rule]

    def to_json(self) -> dict[str, Any]:
        about = self.about
        return {**asdict(self), "severity": about.severity.value, "title": about.title, "instead": about.after}


@dataclass(frozen=True)
class LintedKernel:
    """A kernel's findings, worst first; what was assumed of its arguments; why it was not linted, if so."""

    name: str
    findings: tuple[LintFinding, ...] = ()
    assumptions: tuple[str, ...] = ()
    failure: str | None = None

    def to_json(self) -> dict[str, Any]:
        found = [finding.to_json() for finding in self.findings]
        return {"kernel": self.name, "findings": found, "assumptions": self.assumptions, "failure": self.failure}


def lint_ttir(text: str) -> tuple[LintFinding, ...]:
    """What the rules find in the kernel of a TTIR module, worst first. Raises ParseError, ValueError."""
    return _sorted(Kernel(text))


def _sorted(kernel: Kernel) -> tuple[LintFinding, ...]:
    found = []
    for hit in hits(kernel):
        file, line = (None, None) if hit.line is None else (hit.line.file, hit.line.line)
        found.append(LintFinding(hit.rule, hit.what, file, line))
    return tuple(
        sorted(found, key=lambda finding: (SEVERITIES.index(finding.about.severity), finding.line or 0, finding.rule))
    )


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
    from .source import lint_source

    return lint_source(path, text, dict(arguments or {}))


def _linted_ttir(path: Path, text: str) -> LintedKernel:
    try:
        kernel = Kernel(text)
    except (ParseError, RecursionNotSupportedError, ValueError) as error:
        raise LintFileError(file=path, reason=f"it is no TTIR that can be read: {error}") from error
    return LintedKernel(kernel.name, _sorted(kernel))
