"""A lint of Triton kernels for Ascend: `inductor-npu lint FILE`. docs/ascend.md has the rules."""

from .files import lint_file
from .linting import LintedKernel, LintFinding, lint_ttir
from .rules import RULES, Rule, Severity

__all__ = ["RULES", "LintFinding", "LintedKernel", "Rule", "Severity", "lint_file", "lint_ttir"]
