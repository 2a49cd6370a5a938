"""What a check found, and how it is shown: a table for terminals, JSON, a page."""

from inductor_npu.ascend.report.model import UNKNOWN, Refusal, Row
from inductor_npu.ascend.report.report import Report

__all__ = ["UNKNOWN", "Refusal", "Report", "Row"]
