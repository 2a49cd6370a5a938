"""Builds the runtime, if it is not built yet, and prints the arguments with which cmake finds it:
`cmake $(python -m inductor_npu.export) -S . -B build`.
"""

from inductor_npu.export.cpp import cmake_arguments

print(" ".join(cmake_arguments()))
