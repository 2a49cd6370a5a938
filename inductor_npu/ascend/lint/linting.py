"""What the rules find in a kernel's TTIR."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

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
    return lint_kernel(Kernel(text))


def lint_kernel(kernel: Kernel) -> tuple[LintFinding, ...]:
    """What the rules find in `kernel`, worst first."""
    found = []
    for hit in hits(kernel):
        file, line = (None, None) if hit.line is None else (hit.line.file, hit.line.line)
        found.append(LintFinding(hit.rule, hit.what, file, line))
    return tuple(
        sorted(found, key=lambda finding: (SEVERITIES.index(finding.about.severity), finding.line or 0, finding.rule))
    )
