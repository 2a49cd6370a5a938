"""Math functions and the matrix product as LLVM IR text, for any number of lanes."""

from . import basic, conversions, exponential, integers, inverse, rounding, special, trigonometric, fast  # noqa: F401,I001
from .library import DEFINITIONS, Function, Library, UnknownFunction, build_function
from .matmul import HostVectors, MatmulFunction, matmul

__all__ = [
    "DEFINITIONS",
    "Function",
    "HostVectors",
    "Library",
    "MatmulFunction",
    "UnknownFunction",
    "build_function",
    "matmul",
]
