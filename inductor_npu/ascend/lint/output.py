"""A lint's result as text and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.text import Text

from .linting import LintedKernel
from .rules import RULES, SEVERITIES, Severity

SCHEMA = 1  # counts up when a field changes its meaning or goes; fields may be added
_COLOURS = {
    Severity.WRONG: "bold red",
    Severity.REFUSED: "bold red",
    Severity.SCALAR: "red",
    Severity.ELEMENT_DMA: "yellow",
    Severity.SLOW: "cyan",
}


def as_json(linted: Sequence[tuple[Path, list[LintedKernel]]]) -> str:
    """One object; docs/ascend.md describes its fields."""
    kernels = [{"path": str(path), **kernel.to_json()} for path, kernels in linted for kernel in kernels]
    return json.dumps({"schema": SCHEMA, "kernels": kernels}, indent=1) + "\n"


def render(linted: Sequence[tuple[Path, list[LintedKernel]]]) -> RenderableType:
    """One line a finding, `FILE:LINE: RULE severity: what`, and what to write instead of each rule's form."""
    lines: list[Text] = []
    used: set[str] = set()
    for path, kernels in linted:
        for kernel in kernels:
            lines += _of_kernel(path, kernel)
            used |= {finding.rule for finding in kernel.findings}
    if used:
        lines += [Text(""), Text("What to write instead", "bold")]
        for rule in (rule for rule in RULES.values() if rule.id in used):
            lines.append(Text.assemble((rule.id, "bold"), f" {rule.before}  ->  {rule.after}"))
    return Group(*lines, Text(""), _summary(linted))


def _of_kernel(path: Path, kernel: LintedKernel) -> list[Text]:
    lines: list[Text] = []
    if kernel.failure is not None:
        lines.append(Text.assemble(f"{path}: ", ("not linted", "bold magenta"), f": {kernel.name}: {kernel.failure}"))
    for finding in kernel.findings:
        rule = finding.about
        place = f"{finding.file or path}:{finding.line or 0}"
        severity = (rule.severity.value, _COLOURS[rule.severity])
        lines.append(Text.assemble(f"{place}: ", (rule.id, "bold"), " ", severity, f": {rule.title}: {finding.what}"))
    if kernel.assumptions:
        lines.append(Text(f"{path}: {kernel.name} was taken to have {', '.join(kernel.assumptions)}", "dim"))
    return lines


def _summary(linted: Sequence[tuple[Path, list[LintedKernel]]]) -> Text:
    kernels = [kernel for _, kernels in linted for kernel in kernels]
    severities = [finding.about.severity for kernel in kernels for finding in kernel.findings]
    counts = [f"{severities.count(severity)} {severity.value}" for severity in SEVERITIES if severity in severities]
    failed = sum(kernel.failure is not None for kernel in kernels)
    parts = [f"{len(kernels)} kernel{'s' if len(kernels) != 1 else ''}", *(counts or ["nothing found"])]
    return Text(", ".join([*parts, *([f"{failed} not linted"] if failed else [])]), "bold")
