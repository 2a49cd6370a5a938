"""Builds the embedded NPU's device, if it is not built yet, and prints where it is."""

from inductor_npu.device import build

print(build.build())
