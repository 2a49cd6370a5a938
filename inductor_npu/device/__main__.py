"""Builds the device of this process's provider, if it is not built yet, and prints where it is."""

from inductor_npu.device import build

print(build.build())
