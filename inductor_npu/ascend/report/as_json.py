"""The report as JSON."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from inductor_npu.ascend.report.model import CheckedProgram, Row

SCHEMA = 1  # counts up when a field changes its meaning or goes; fields may be added


def as_json(report: CheckedProgram) -> str:
    """One object; docs/ascend.md describes its fields."""
    data = {
        "schema": SCHEMA,
        "program": report.program,
        "status": report.status,
        "target": report.target,
        "versions": report.versions,
        "summary": {
            "kernels": len(report.rows),
            "launches": sum(row.launches for row in report.rows),
            "verdicts": report.counts,
            "bytes_moved": report.total("bytes_moved"),
            "bytes_least": report.total("bytes_least"),
            "arithmetic": None if report.arithmetic is None else asdict(report.arithmetic),
        },
        "kernels": [_row(row) for row in report.rows],
        "omissions": [asdict(omission) for omission in report.omissions],
        "advice": report.advice,
    }
    return json.dumps(data, indent=1) + "\n"


def _row(row: Row) -> dict[str, Any]:
    agreement = None if row.agreement is None else row.agreement.to_json()
    lint = [finding.to_json() for finding in row.lint]
    own = {"bytes_moved": row.bytes_moved, "bound": row.bound, "busy": row.busy}
    return {**asdict(row), "agreement": agreement, "lint": lint, **own}
