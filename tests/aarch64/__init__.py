"""The embedded NPU's code for aarch64, on any machine: kernels are compiled for such a processor and emulated.

`make test-aarch64` runs these tests, and with the plugin `plugin.py` those of the math library and of the Triton
compiler. What is not tried there is the C++ device: its sources are compiled for aarch64 and not run.
"""
