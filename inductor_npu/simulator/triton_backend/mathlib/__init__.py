"""Math functions and the matrix product as LLVM IR text, for any number of lanes."""

from . import basic, conversions, exponential, special, trigonometric
from .library import DEFINITIONS, Function, Library, UnknownFunction, build_function

__all__ = ["DEFINITIONS", "Function", "Library", "UnknownFunction", "build_function"]
