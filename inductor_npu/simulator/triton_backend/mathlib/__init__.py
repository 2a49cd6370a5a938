"""Math functions and the matrix product as LLVM IR text, for any number of lanes."""

from . import basic, conversions, exponential, integers, inverse, rounding, special, trigonometric, fast  # noqa: F401,I001
from .library import DEFINITIONS, Function, Library, UnknownFunction, build_function
from .matmul import MatmulFunction, matmul
from .products import HostVectors, PackedProduct, packed_product

__all__ = [
    "DEFINITIONS",
    "Function",
    "HostVectors",
    "Library",
    "MatmulFunction",
    "PackedProduct",
    "UnknownFunction",
    "build_function",
    "matmul",
    "packed_product",
]
