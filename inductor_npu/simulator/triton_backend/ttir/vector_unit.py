"""What an operation needs in the Unified Buffer beside its operands and results, on Ascend's vector unit.

Measured: bishengir-compile 1.2.0 refuses a kernel of one operation on 65536 elements and says how many bytes it
requires. Compiled once with operands that are not used again and once with operands that are, the two numbers say how
many tiles of temporaries the operation has and whether its result takes an operand's place.
"""

from __future__ import annotations

from .ir import Op, TensorType
from .literals import element_bits

# Tiles of the result's size that are live while the operation runs; 0 for all others.
TEMPORARY_TILES: dict[str, float] = {
    "arith.maxnumf": 2,  # picks the other operand where one is NaN
    "arith.minnumf": 2,
    "arith.remf": 1,
    "arith.remsi": 1,
    "arith.remui": 1,
    "arith.xori": 1,
    "math.erf": 2,
    "math.sin": 4,
    "math.cos": 4,
    "math.log2": 1,
    "math.rsqrt": 1,
    "math.tanh": 1,
    "math.absi": 1,
    "tt.mulhiui": 2,
}

# The same for functions of libdevice, by their names without type.
TEMPORARY_TILES_OF_FUNCTION: dict[str, float] = {
    "tanh": 1,
    "isinf": 1,
    "trunc": 3,
    "tan": 5,
    "atan": 5,
    "nearbyint": 5,
    "pow": 6,
    "asin": 7,
    "acos": 7,
    "erfinv": 8,
    "lgamma": 14,
    "gamma": 14,
    "copysign": 3,
    "hypot": 1,
    "erf": 2,
    "rsqrt": 1,
    "sin": 4,
    "cos": 4,
}

# Operations whose result never takes an operand's place, though they work element by element.
NOT_IN_PLACE = frozenset({"arith.select"})

# Operations that take no number instead of a tile, by the position of the operand that may be none (None: either): the
# number is spread over a tile first.
NEEDS_TILES: dict[str, int | None] = {
    "arith.cmpf": None,
    "arith.andi": None,
    "arith.ori": None,
    "arith.xori": None,
    "arith.remf": None,
    "arith.remsi": None,
    "arith.remui": None,
    "arith.divf": 0,
    "arith.divsi": 0,
    "tt.store": 1,
}

# Tiles of temporaries more where an operand is a number.
NEEDS_MORE_WITH_NUMBERS = {"arith.maxnumf": 2, "arith.minnumf": 2}
# Numbers of 8 bits become wider ones by way of float16: bytes of temporaries for an element, by the result's type.
_WIDENED_BYTES = {"f32": 1, "i32": 1, "bf16": 3}
WIDENINGS = frozenset({"arith.sitofp", "arith.uitofp", "arith.extsi", "arith.extui"})
# And float32 becomes one of 8 bits by way of int32 and float16.
_NARROWED_BYTES = 9

# Of these, those that have their own tile of a number; a number that others take is spread once, before any loop.
FILLED_AT_USE = frozenset({"arith.divf", "arith.divsi"})

# A vector register: rows of no more than this many bytes are reduced without a temporary.
REDUCED_AT_ONCE = 256
# What one broadcast of a column takes per row: one block.
BLOCK = 32


# Bytes of scratch, whatever the size of the tile: what makes a tile that fits to the last byte not fit.
SCRATCH_OF_SELECTION = 64
SCRATCH_OF_MASK = 96  # of a cast from bits
# Arithmetic of 8 bits is done in 16 and in 32: tiles of temporaries for one of 8 bits.
TILES_OF_NARROW_ARITHMETIC = 14
NARROW_ARITHMETIC = frozenset({"arith.addi", "arith.subi", "arith.muli"})


def temporary_tiles(op: Op) -> float:
    if op.name == "tt.extern_elementwise":
        name = str(op.attrs["symbol"]).removeprefix("__nv_").removeprefix("__hmf_").removeprefix("_ascend_")
        for candidate in (name, name.removesuffix("f"), name.removesuffix("_f32"), name.removesuffix("Df")):
            if candidate in TEMPORARY_TILES_OF_FUNCTION:
                return TEMPORARY_TILES_OF_FUNCTION[candidate]
        return 0
    if op.name in WIDENINGS or op.name == "arith.fptosi":
        return _of_conversion(op)
    return TEMPORARY_TILES.get(op.name, 0)


def _of_conversion(op: Op) -> float:
    source, result = op.operands[0].type, op.results[0].type
    if not isinstance(source, TensorType) or not isinstance(result, TensorType):
        return 0
    if op.name == "arith.fptosi":
        narrow = element_bits(source.element) == 32 and element_bits(result.element) == 8
        return _NARROWED_BYTES if narrow else 0
    if element_bits(source.element) != 8:
        return 0
    return 8 * _WIDENED_BYTES.get(str(result.element), 0) / element_bits(result.element)
