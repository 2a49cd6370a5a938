"""Triton's backend `npu`: from Triton's IR to native code that runs on the embedded NPU.

Triton imports this package where it looks for backends, before its language.
"""

from . import language
from .launch_record import LaunchRecord, record

language.install()

__all__ = ["LaunchRecord", "record"]
