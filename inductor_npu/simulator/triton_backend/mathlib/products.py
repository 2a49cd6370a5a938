"""How a product of tiles is computed on a host: what its operands are packed into, and the register block.

An instruction multiplies a *group* of neighbours along K for each column and adds their products: one f32 or f64, two
bf16 (AVX512-BF16), four i8 (AVX512-VNNI). A group fills 32 bits, one f64 64 bits. Operands are packed so that a step of
the register block reads whole vectors of groups, and broadcasts one group:

- B lies in panels of `panel` columns: [N / panel, K / group, panel, group];
- A lies by rows, [M, K], or in panels of `rows` rows: [M / rows, K / group, rows, group].

bf16 without the instruction, f16 and fp8 are computed in f32, where every product of two is exact. So is i8: sums of
products of at most 2**14 are exact over 1024 steps.
"""

from __future__ import annotations

from dataclasses import dataclass

from .builder import BIT_WIDTHS, llvm_type
from .library import UnknownFunction

OPERANDS = ("f32", "f64", "f16", "bf16", "i8", "f8E4M3FN", "f8E5M2")
_SUMS = {"f32": "f32", "f16": "f32", "f64": "f64", "i32": "f32"}  # by the accumulator, without special instructions


@dataclass(frozen=True)
class HostVectors:
    """The host's vector unit: bits of a register, how many there are, whether it has dot products of bf16 and i8."""

    bits: int = 512
    registers: int = 32
    bf16_products: bool = False
    int8_products: bool = False

    @classmethod
    def of_features(cls, features: dict[str, bool]) -> HostVectors:
        """From LLVM's feature names of the host."""
        if features.get("avx512f"):
            return cls(512, 32, bool(features.get("avx512bf16")), bool(features.get("avx512vnni")))
        if features.get("avx"):
            return cls(256, 16)
        return cls(128, 32 if features.get("neon") else 16)


@dataclass(frozen=True)
class PackedProduct:
    """A product of tiles [m, k] and [k, n]; see the module's docstring.

    `element` is what packed operands consist of, `sums` what a register block sums in. A panel of B is `vectors`
    registers of `lanes` columns wide. `a_in_panels` says how A lies.
    """

    m: int
    n: int
    k: int
    element: str
    group: int
    sums: str
    accumulator: str
    lanes: int
    vectors: int
    rows: int
    a_in_panels: bool = False

    @property
    def panel(self) -> int:
        """Columns of a panel of B."""
        return self.lanes * self.vectors

    @property
    def group_bytes(self) -> int:
        return self.group * BIT_WIDTHS[self.element] // 8

    @property
    def a_bytes(self) -> int:
        return self.m * self.k // self.group * self.group_bytes

    @property
    def b_bytes(self) -> int:
        return self.k // self.group * self.n * self.group_bytes

    @property
    def instruction(self) -> tuple[str, str]:
        """The intrinsic that multiplies and adds groups, and the type of its factors. Groups of several numbers come
        behind what they are added to, `fma` takes that last.
        """
        if self.element == "i8":
            return "llvm.x86.avx512.vpdpbusd.512", "<16 x i32>"
        if self.element == "bf16":
            return "llvm.x86.avx512bf16.dpbf16ps.512", "<32 x bfloat>"
        suffix = self.sums if self.lanes == 1 else f"v{self.lanes}{self.sums}"
        return f"llvm.fma.{suffix}", llvm_type(self.sums, self.lanes)

    @property
    def a_is_offset(self) -> bool:
        """Whether A is packed as unsigned numbers, 128 more than they are."""
        return self.element == "i8"


def packed_product(
    shape: tuple[int, int, int], operands: tuple[str, str], accumulator: str, host: HostVectors = HostVectors()
) -> PackedProduct:
    """How the tiles [M, K] and [K, N] are multiplied on `host`; M, N, K are powers of two.

    operands: elements of A and B (f32, f64, f16, bf16, f8E4M3FN, f8E5M2, i8). accumulator: the element of C: f32, f16
    (summed in f32 within the call), f64 for f64 operands, i32 for i8 operands. Raises UnknownFunction for other
    combinations.
    """
    integers = [o == "i8" for o in operands]
    doubles = [o == "f64" for o in operands]
    fits = accumulator in _SUMS and all(o in OPERANDS for o in operands)
    if not fits or set(integers) != {accumulator == "i32"} or set(doubles) != {accumulator == "f64"}:
        raise UnknownFunction(f"tl.dot of {operands[0]} and {operands[1]} into {accumulator} is not supported")
    m, n, k = shape
    element, group, summed = _instruction(n, k, operands, accumulator, host)
    lanes = min(n, host.bits // BIT_WIDTHS[summed])
    # Sums fill half of the registers, so that enough of them are under way at a time; blocks that are wide rather than
    # high walk along lines of C.
    sums_at_once = host.registers // 2
    vectors = min(4 if sums_at_once >= 16 else 2, n // lanes)
    rows = min(m, sums_at_once // vectors, 8)
    return PackedProduct(m, n, k, element, group, summed, accumulator, lanes, vectors, rows)


def _instruction(
    n: int, k: int, operands: tuple[str, str], accumulator: str, host: HostVectors
) -> tuple[str, int, str]:
    """The element that is packed, the group, and the element that is summed in."""
    whole = n % (host.bits // 32) == 0
    if whole and host.bf16_products and operands == ("bf16", "bf16") and k % 2 == 0:
        return "bf16", 2, "f32"
    if whole and host.int8_products and accumulator == "i32" and k % 4 == 0:
        return "i8", 4, "i32"
    return _SUMS[accumulator], 1, _SUMS[accumulator]
