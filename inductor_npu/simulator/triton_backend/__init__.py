"""Triton's backend `npu`: from Triton's IR to native code that runs on the embedded NPU."""

from .launch_record import LaunchRecord, record

__all__ = ["LaunchRecord", "record"]
