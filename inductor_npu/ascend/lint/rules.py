"""The rules: constructs that Ascend's compiler refuses or compiles to wrong or slow code, and what to write instead.

Each was found by compiling kernels with triton-ascend 3.2.0 and ascendnpu-ir 1.2.0 for Ascend910B3. docs/ascend.md has
this table; `python -m inductor_npu.ascend.lint.rules` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """What happens, from bad to good."""

    WRONG = "wrong"  # accepted, and not what the kernel says
    REFUSED = "refused"
    SCALAR = "scalar"  # a loop over single elements
    ELEMENT_DMA = "element DMA"  # transfers of single elements
    SLOW = "slow"


SEVERITIES = tuple(Severity)


@dataclass(frozen=True)
class Rule:
    """`finds` says what is wrong with it, `before` is code that shows it; `after` is what to write instead: code, or a
    text with code in backquotes.
    """

    id: str
    severity: Severity
    title: str
    finds: str
    before: str
    after: str

    @property
    def advice(self) -> str:
        """What to write instead, all code in backquotes."""
        return _code(self.after)


def _rules(severity: Severity, *rows: tuple[str, str, str, str, str]) -> list[Rule]:
    return [Rule(identity, severity, *row) for identity, *row in rows]


_ALL = [
    *_rules(
        Severity.WRONG,
        (
            "N101",
            "reversed mask",
            "A mask with the bound on the left does not limit the access: the whole tile is read, or read and written",
            "tl.store(y + i, v, mask=n > i)",
            "tl.store(y + i, v, mask=i < n)",
        ),
        (
            "N102",
            "mask made of data",
            "A mask with a part that depends on loaded values limits nothing, its other parts neither",
            "tl.store(y + i, v, mask=(i < n) & (v > 0))",
            "tl.store(y + i, tl.where(v > 0, v, old), mask=i < n)",
        ),
        (
            "N103",
            "mask that is no interval",
            (
                "`|`, `~`, `!=`, `>`, a difference, a scaled index, two axes in one, along gathered rows that have "
                "more than 32 bytes behind the end: they limit nothing. `==` is one element, without a look at whether "
                "the tile has it"
            ),
            "tl.load(x + i, mask=(i < a) | (i >= b))",
            "tl.where((i < a) | (i >= b), tl.load(x + i, mask=i < n), 0.0)",
        ),
        (
            "N104",
            "random numbers",
            "The multiplication that Philox is made of is done signed: other numbers than everywhere else; and scalar",
            "tl.rand(seed, i)",
            "numbers made by the host, or a Philox of 16-bit products in int32 (`& 0xFFFF`)",
        ),
        (
            "N105",
            "integer division of data",
            "`//` of int32 tiles is a division of fp32: exact only below 2^24",
            "v // 7",
            "`v >> k` for powers of two; else keep values below 2^24",
        ),
        (
            "N106",
            "unsigned shift to the right",
            "It shifts as if signed: copies of the top bit come in from the left",
            "u >> k",
            "(v >> k) & ((1 << (32 - k)) - 1)",
        ),
        (
            "N107",
            "remainder of floating-point numbers",
            "It is `a - trunc(a / b) * b`: wrong where a / b is large",
            "a % b",
            "the same, with `a` brought down to a small multiple of `b` first",
        ),
        (
            "N108",
            "inexact library function",
            "Ascend's `asinh` is wrong for negative numbers; `expm1`, `log1p`, `sinh`, `atanh` lose all digits near 0",
            "libdevice.expm1(x)",
            "tl.where(tl.abs(x) < 1e-3, x + 0.5 * x * x, tl.exp(x) - 1.0)",
        ),
        (
            "N109",
            "atomic addition of a product",
            (
                "What is added was never written: the product goes elsewhere. With arithmetic between, both "
                "vector cores add it"
            ),
            "tl.atomic_add(c, tl.dot(a, b))",
            (
                "each part of K to a matrix of its own in memory, `tl.store(c + part * M * N + ..., acc)`, "
                "and a kernel that sums them"
            ),
        ),
        (
            "N110",
            "int32 product stored as int8",
            "It is requantised by the chip, not truncated",
            "tl.store(c, acc.to(tl.int8))  # acc: int32",
            "`tl.store(c, acc)` as int32, or with a scale: `(acc.to(tl.float32) * s).to(tl.int8)`",
        ),
        (
            "N111",
            "lower bound on K or on columns of an operand",
            (
                "As many steps are multiplied as the bounds leave, from the tile's start on: the last ones "
                "are lost. Rows of the left operand may have one"
            ),
            "tl.load(b + ..., mask=(k[:, None] >= lo) & (k[:, None] < hi))",
            "a loop that begins at `lo`: `for k0 in range(lo, hi, BK)`",
        ),
        (
            "N112",
            "tensor descriptor beside a product",
            "It has no bounds: tiles at the end are read and written beyond the tensor",
            "d.load([m, k])",
            (
                "`tl.load(a + rm[:, None] * K + k[None, :], mask=..., other=0.0)`, or a block pointer with "
                "`boundary_check`"
            ),
        ),
        (
            "N113",
            "bias wider than the bias table",
            "The bias table has 1 KiB, which the compiler does not check",
            "tl.dot(a, b, tl.broadcast_to(bias[None, :], (64, 512)))",
            "at most 256 columns a tile, or `acc + bias[None, :]` behind the loop",
        ),
    ),
    *_rules(
        Severity.REFUSED,
        (
            "N201",
            "`other` that is a tile",
            "The adapter crashes on a load whose `other` is not one number",
            "tl.load(x + i, mask=m, other=v)",
            "tl.where(m, tl.load(x + i, mask=m, other=0.0), v)",
        ),
        (
            "N202",
            "address that stays the same along an axis",
            "The adapter crashes on a tile of addresses that repeat along one of its axes, and on an index times 0",
            "tl.load(x + c[None, :] + 0 * r[:, None])",
            "`tl.load(x + c)[None, :]`, which is spread where it is used",
        ),
        ("N203", "fp64", "There is no fp64", "v.to(tl.float64)", "v.to(tl.float32)"),
        (
            "N204",
            "unsigned comparison or conversion",
            "Tiles of uint16, uint32 and uint64 cannot be compared, nor converted from and to floating point",
            "u < k",
            "u.to(tl.int32) < k",
        ),
        (
            "N205",
            "function that Ascend's libdevice lacks",
            "It has few functions",
            "libdevice.fmod(a, b)",
            "`a - tl.floor(a / b) * b`; a function of `tl` where there is one",
        ),
        (
            "N206",
            "reduction of several values",
            "The adapter crashes on `tl.reduce` of a tuple, such as Welford's; it knows `tl.argmax` and its like",
            "tl.reduce((mean, m2, weight), 1, welford)",
            "`tl.sum(v, 1)` and `tl.sum(v * v, 1)`, or two passes",
        ),
        (
            "N207",
            "reduction that selects by NaN",
            "bishengir crashes on a combine function with `a != a`",
            "tl.reduce(v, 1, max_that_keeps_nan)",
            "`tl.max(v, 1)`, or `tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)` as the combine function",
        ),
        (
            "N208",
            "accumulator too large",
            "The accumulator of `tl.dot` has 128 KiB",
            "tl.dot(a, b)  # 256 x 256",
            "tl.dot(a, b)  # 128 x 256",
        ),
        (
            "N209",
            "loop over K that begins with a bias",
            "The accumulator cannot move from L1 to L0C",
            "acc = tl.broadcast_to(bias[None, :], (BM, BN)); for k0 in range(0, K, BK): acc = tl.dot(a, b, acc)",
            (
                "a first step before the loop, `acc = tl.dot(a, b, tl.broadcast_to(bias[None, :], (BM, "
                "BN)))`, or `acc + bias[None, :]` behind it"
            ),
        ),
    ),
    *_rules(
        Severity.SCALAR,
        (
            "N301",
            "index with // or %",
            "An address that is not a sum of axes: each element is moved by itself",
            "tl.load(x + i // 64 + (i % 64) * s)",
            "`tl.load(x + r[:, None] + c[None, :] * s)`, with `//` and `%` of scalars only",
        ),
        (
            "N302",
            "falling index",
            "The address falls along an axis",
            "tl.load(x + (n - 1 - i))",
            "`tl.gather(row, n - 1 - i, 0)` of a row that was loaded as it lies",
        ),
        (
            "N303",
            "index that is chosen",
            "A minimum, a maximum or a selection in an address",
            "tl.load(x + tl.minimum(i, n - 1))",
            "tl.load(x + i, mask=i < n)",
        ),
        (
            "N304",
            "gather of elements",
            "Each address was loaded",
            "tl.load(x + tl.load(index + i))",
            "`tl.gather` of a row in the Unified Buffer, or a loop over rows with a scalar index, `tl.load(index + j)`",
        ),
        (
            "N305",
            "scatter of elements",
            "Each address was loaded",
            "tl.store(y + tl.load(index + i), v)",
            "a loop over rows with a scalar index, `tl.load(index + j)`",
        ),
        (
            "N306",
            "rows of a gather that end between blocks",
            "Rows by loaded indices are moved as rows only if a row is a multiple of 32 bytes",
            "x + index[:, None] * 100 + c[None, :]",
            "for j in range(rows): tl.load(x + tl.load(index + j) * 100 + c, mask=c < 100)",
        ),
        (
            "N307",
            "scan along the innermost axis",
            "Element by element",
            "tl.cumsum(v, 1)",
            "tl.trans(tl.cumsum(tl.trans(v), 0))",
        ),
        (
            "N308",
            "int64 arithmetic",
            "There is no instruction for int64",
            "a + b  # int64",
            "`a.to(tl.int32) + b.to(tl.int32)`, right after the load",
        ),
        (
            "N309",
            "int32 remainder",
            "`%` of int32 tiles has no instruction",
            "a % k",
            "`a - (a // k) * k` below 2^24; `a & (k - 1)` for powers of two",
        ),
        (
            "N310",
            "int16 comparison",
            "Two int16 tiles are compared element by element",
            "a > b  # int16",
            "a.to(tl.int32) > b.to(tl.int32)",
        ),
        (
            "N311",
            "shift by a tile",
            "Shifts take the same amount for all elements",
            "v << amounts",
            "v << 3",
        ),
        (
            "N312",
            "row reduction with a scalar tail",
            "The last 32 bytes of each row go one by one: of integers, and of products, `and`, `or`, `xor`",
            "tl.sum(v_int32, 1)",
            "`tl.sum(v.to(tl.float32), 1)`, exact below 2^24, or along axis 0",
        ),
        ("N313", "flip", "A library function that is a loop", "tl.flip(v, 0)", "tl.gather(v, n - 1 - i, 0)"),
        (
            "N314",
            "histogram",
            "A loop",
            "tl.histogram(v, 64)",
            "tl.sum((v[:, None] == bins[None, :]).to(tl.float32), 0)",
        ),
        (
            "N315",
            "tile whose comparison leaves a rest",
            "Compared are 256 bytes at a time (64 fp32); what is left, or less, goes one by one",
            "tl.arange(0, 1000)",
            "`tl.arange(0, 1024)` with a mask",
        ),
        (
            "N316",
            "inline assembly",
            "Once for each element; and it has to be assembly of the chip, not of a GPU",
            "tl.inline_asm_elementwise(...)",
            "functions of `tl`",
        ),
        (
            "N317",
            "remainder in the address of an operand",
            "Single elements go through the Unified Buffer and memory into L1, or the adapter crashes",
            "a + (rm % M)[:, None] * K + k[None, :]",
            "`a + rm[:, None] * K + k[None, :]` with `mask=rm[:, None] < M`",
        ),
        (
            "N318",
            "operand of a product by transposed pointers",
            "Single elements go through the Unified Buffer and memory into L1",
            "tl.dot(a, tl.load(b + rn[None, :] * K + k[:, None]))",
            "tl.dot(a, tl.trans(tl.load(b + rn[:, None] * K + k[None, :])))",
        ),
    ),
    *_rules(
        Severity.ELEMENT_DMA,
        (
            "N401",
            "transposed access",
            "Another axis than the innermost is the contiguous one: bursts of one element",
            "tl.load(x + r[:, None] + c[None, :] * s)",
            "tl.trans(tl.load(x + c[:, None] * s + r[None, :]))",
        ),
        (
            "N402",
            "strided access",
            "Neighbours of a row lie apart",
            "tl.load(x + 3 * i)",
            "a contiguous load, `tl.reshape` and `tl.split`",
        ),
        (
            "N403",
            "narrow rows",
            "Rows of less than 32 bytes that do not follow each other, or with a broadcast operand: padded to that",
            "tl.load(x + r[:, None] * s + tl.arange(0, 4)[None, :])",
            "a flat tile, or a loop over the narrow axis (`for j in range(4)`)",
        ),
        (
            "N404",
            "innermost axis of size 1",
            "Every element is a row",
            "x + r[:, None, None] * s + c[None, :, None]",
            "x + r[:, None] * s + c[None, :]",
        ),
    ),
    *_rules(
        Severity.SLOW,
        (
            "N501",
            "maximum that ignores NaN",
            "Five instructions and three tiles more",
            "tl.maximum(a, b)",
            "tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)",
        ),
        (
            "N502",
            "where instead of other",
            "The mask becomes a tile of its own",
            'tl.max(tl.where(m, v, -float("inf")), 1)',
            'tl.max(tl.load(x + i, mask=m, other=-float("inf")), 1)',
        ),
        (
            "N503",
            "clamp",
            "36 bytes an element instead of 8",
            "tl.clamp(v, a, b)",
            "`tl.maximum` and `tl.minimum` with `propagate_nan=tl.PropagateNan.ALL`",
        ),
        (
            "N504",
            "reduction of one row",
            "The result goes to the scalar unit and back, in a loop for each row",
            "tl.sum(row, 0)",
            "`tl.sum(rows, 1)` of 4 to 16 rows at a time",
        ),
        (
            "N505",
            "while over tiles",
            "No double buffers: transfer and arithmetic take turns",
            "while i < n: ...; i += TILE",
            "for i in range(first, n, TILE)",
        ),
        (
            "N506",
            "innermost stride known at run time",
            "It vectorises only where the launch passes 1, which Triton takes as a constant; else it is N402",
            "x + r[:, None] * stride_r + c[None, :] * stride_c",
            "x + r[:, None] * stride_r + c[None, :]",
        ),
        (
            "N507",
            "transpose of bf16",
            "It takes 16 KiB besides",
            "tl.trans(v)",
            "tl.trans(v.to(tl.float32)).to(tl.bfloat16)",
        ),
        (
            "N508",
            "operand of a product with an inner stride known at run time",
            "It goes through the Unified Buffer and memory into L1, unless the launch passes 1",
            "a + rm[:, None] * stride_am + k[None, :] * stride_ak",
            "a + rm[:, None] * stride_am + k[None, :]",
        ),
        (
            "N509",
            "while around a product",
            "The sum leaves L0C in each turn, and operands have one buffer",
            "while k0 < K: acc = tl.dot(a, b, acc); k0 += BK",
            "for k0 in range(0, K, BK): acc = tl.dot(a, b, acc)",
        ),
        (
            "N510",
            "loop over K that begins with a loaded tile",
            "The vector cores add in each turn",
            "acc = tl.load(r); for k0 in range(0, K, BK): acc = tl.dot(a, b, acc)",
            "`acc + tl.load(r)` behind the loop, or `tl.dot(identity, tl.load(r), acc)`",
        ),
        (
            "N511",
            "arithmetic in the loop over K on an operand that more than 16 rows (or columns) meet",
            "The operand goes to L1 by way of memory, in each turn of each tile",
            "for k0 in range(0, K, BK): acc = tl.dot(a, b.to(tl.float16) * s, acc)",
            "a kernel of its own that prepares the operand once; a scale of rows or columns behind the loop",
        ),
        (
            "N512",
            "hf32",
            "It is ignored: the product is computed in fp32",
            'tl.dot(a, b, input_precision="hf32")',
            "`tl.dot(a, b)`, or operands in bf16",
        ),
        (
            "N513",
            "vector work on a product with an odd number of rows",
            "Each of the two vector cores does all of it, with twice the Unified Buffer",
            "tl.exp(tl.dot(a, b))  # 127 rows",
            "an even number of rows, and a mask",
        ),
        (
            "N514",
            "where that clips a product",
            "12 bytes an element instead of 4",
            "tl.where(acc > 0, acc, 0.0)",
            "tl.maximum(acc, 0.0, propagate_nan=tl.PropagateNan.ALL)",
        ),
        (
            "N515",
            "operand with rows 65536 elements apart or more",
            "One transfer for each row instead of one for the tile",
            "a + rm[:, None] * 65536 + k[None, :]",
            "a copy with shorter rows, if it is read often",
        ),
        (
            "N516",
            "accumulator that goes through a branch",
            "The sum leaves L0C in each turn; where no loop is around the branch, bishengir crashes",
            "if k0 < n: acc = tl.dot(a, b, acc)",
            "bounds of the loop instead: `for k0 in range(0, n, BK)`",
        ),
        (
            "N517",
            "store without a mask behind vector work on a product",
            "The two vector cores do not share the rows: each does all of the work",
            "tl.store(c + at, tl.exp(acc))",
            "`tl.store(c + at, tl.exp(acc), mask=rm[:, None] < M)`, also where all rows are there",
        ),
    ),
]
RULES = {rule.id: rule for rule in _ALL}


def as_markdown() -> str:
    """The table of docs/ascend.md."""
    lines = ["| Rule | Severity | Finds | Because | Write instead |", "| --- | --- | --- | --- | --- |"]
    for rule in RULES.values():
        cells = (rule.id, rule.severity.value, f"{rule.title}: {_code(rule.before)}", rule.finds, rule.advice)
        lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines) + "\n"


def _code(text: str) -> str:
    """`text` as code, unless it says itself which part of it is."""
    return text if "`" in text else f"`{text}`"


if __name__ == "__main__":
    print(as_markdown(), end="")
