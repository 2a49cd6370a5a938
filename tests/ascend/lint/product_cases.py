"""Kernels with dots, for the rules about them: each as it should not be written, and as the rule says."""

from __future__ import annotations

from inductor_npu.ascend.kernel import Constant, KernelSource
from tests.ascend.lint.cases import BF16, F16, F32, Pair, source

I8, I32 = "*i8", "*i32"
TYPES = {"A": F16, "B": F16, "R": F32, "C": F32, "M": "i32", "N": "i32", "K": "i32", "sk": "i32"}
_BLOCKS = {"BM": 64, "BN": 64, "BK": 64}
_A = "tl.load(A + rm[:, None] * K + k[None, :], mask=(rm[:, None] < M) & (k[None, :] < K), other=0)"
_B = "tl.load(B + k[:, None] * N + rn[None, :], mask=(k[:, None] < K) & (rn[None, :] < N), other=0)"
_STORE = "tl.store(C + at, {}, mask=m)"


def _kernel(
    name: str,
    store: str = _STORE.format("acc"),
    a: str = _A,
    b: str = _B,
    start: str = "acc = tl.zeros((BM, BN), tl.float32)",
    loop: str = "for k0 in range(0, K, BK):",
    add: str = "acc = tl.dot(a, b, acc)",
    types: dict[str, str] | None = None,
    blocks: dict[str, int] | None = None,
) -> KernelSource:
    """A product of matrices, one tile a program."""
    body = f"""\
rm = tl.program_id(0) * BM + tl.arange(0, BM)
rn = tl.program_id(1) * BN + tl.arange(0, BN)
m = (rm[:, None] < M) & (rn[None, :] < N)
at = rm[:, None] * N + rn[None, :]
{start}
{loop}
    k = k0 + tl.arange(0, BK)
    a = {a}
    b = {b}
    {add}
{store}
"""
    constants: dict[str, Constant] = {**_BLOCKS, **(blocks or {})}
    return source(name, body, {**TYPES, **(types or {})}, constants)


def _pair(name: str, bad: dict, good: dict | None = None, **both) -> Pair:
    return Pair(_kernel(name, **{**both, **bad}), _kernel(f"{name}_well", **{**both, **(good or {})}))


_INT = {
    "start": "acc = tl.zeros((BM, BN), tl.int32)",
    "add": "acc = tl.dot(a, b, acc, out_dtype=tl.int32)",
    "types": {"A": I8, "B": I8, "C": I8},
}
_BIAS = "bias = tl.load(R + rn, mask=rn < N, other=0.0)\n"
_FIRST = _BIAS + f"k = tl.arange(0, BK)\nacc = tl.dot({_A}, {_B}, tl.broadcast_to(bias[None, :], (BM, BN)))"
_ALL = "propagate_nan=tl.PropagateNan.ALL"
_WHILE = "k0 = 0\nwhile k0 < K:"
_TRANSPOSED = "tl.load(B + rn[None, :] * K + k[:, None], mask=(k[:, None] < K) & (rn[None, :] < N), other=0)"
_ROWS = "tl.trans(tl.load(B + rn[:, None] * K + k[None, :], mask=(rn[:, None] < N) & (k[None, :] < K), other=0))"
_FROM = "(k[None, :] >= sk)"

PRODUCT_PAIRS = {
    "N109": _pair(
        "atomic_product",
        {"store": "tl.atomic_add(C + at, acc, mask=m)"},
        {"store": "tl.store(C + sk * M * N + at, acc, mask=m)"},
    ),
    "N110": _pair(
        "product_to_int8",
        {"store": _STORE.format("acc.to(tl.int8)")},
        {"store": _STORE.format("(acc.to(tl.float32) * 0.5).to(tl.int8)")},
        **_INT,
    ),
    "N111": _pair(
        "lower_bound",
        {"a": _A.replace("(k[None, :] < K)", f"(k[None, :] < K) & {_FROM}")},
        {"a": _A.replace("(rm[:, None] < M)", "(rm[:, None] < M) & (rm[:, None] >= sk)")},
    ),
    "N113": _pair(
        "wide_bias",
        {},
        {"blocks": {"BN": 256, "BK": 32}},
        start=_FIRST,
        loop="for k0 in range(BK, K, BK):",
        blocks={"BN": 512, "BK": 32},
    ),
    "N317": _pair(
        "wrapped_columns",
        {"b": "tl.load(B + k[:, None] * N + (rn % N)[None, :], mask=k[:, None] < K, other=0)"},
    ),
    "N209": _pair(
        "loop_from_bias",
        {"start": _BIAS + "acc = tl.broadcast_to(bias[None, :], (BM, BN))"},
        {"start": _FIRST, "loop": "for k0 in range(BK, K, BK):"},
    ),
    "N516": _pair("product_in_a_branch", {"add": "if k0 < sk:\n        acc = tl.dot(a, b, acc)"}),
    "N318": _pair("transposed_operand", {"b": _TRANSPOSED}, {"b": _ROWS}),
    "N508": _pair(
        "stride_of_operand",
        {"a": _A.replace("k[None, :],", "k[None, :] * sk,")},
        {"a": _A.replace("* K + k", "* sk + k")},
    ),
    "N509": _pair("while_over_k", {"loop": _WHILE, "add": "acc = tl.dot(a, b, acc)\n    k0 += BK"}),
    "N510": _pair(
        "loop_from_a_tile",
        {"start": "acc = tl.load(R + at, mask=m, other=0.0)"},
        {"store": _STORE.format("acc + tl.load(R + at, mask=m, other=0.0)")},
    ),
    "N511": _pair(
        "scaled_operand",
        {"add": "acc = tl.dot(a * 0.5, b, acc)"},
        {"store": _STORE.format("acc * 0.5")},
        types={"A": BF16, "B": BF16},
    ),
    "N514": _pair(
        "relu_by_where",
        {"store": _STORE.format("tl.where(acc > 0.0, acc, 0.0)")},
        {"store": _STORE.format(f"tl.maximum(acc, 0.0, {_ALL})")},
    ),
    "N517": _pair(
        "unmasked_store", {"store": "tl.store(C + at, tl.exp(acc))"}, {"store": _STORE.format("tl.exp(acc)")}
    ),
    "N515": _pair(
        "long_rows",
        {"a": _A.replace("rm[:, None] * K", "rm[:, None] * 65536")},
        {"a": _A.replace("rm[:, None] * K", "rm[:, None] * 32768")},
    ),
}

# Weights of int8 for a square of rows, which one tile reads.
CONVERTED_FOR_FEW_ROWS = _kernel(
    "converted_for_few_rows", add="acc = tl.dot(a, b.to(tl.float16), acc)", types={"B": I8}, blocks={"BM": 16}
)

_DESCRIPTORS = """
d = tl.make_tensor_descriptor(A, [M, 64], [64, 1], [64, 64])
e = tl.make_tensor_descriptor(B, [64, 64], [64, 1], [64, 64])
r = tl.arange(0, 64)
c = tl.dot(d.load([tl.program_id(0) * 64, 0]), e.load([0, 0]))
tl.store(C + r[:, None] * 64 + r[None, :], c, mask=r[:, None] < M)
"""
_POINTERS = """
r = tl.arange(0, 64)
rm = tl.program_id(0) * 64 + r
a = tl.load(A + rm[:, None] * 64 + r[None, :], mask=rm[:, None] < M, other=0.0)
b = tl.load(B + r[:, None] * 64 + r[None, :])
tl.store(C + r[:, None] * 64 + r[None, :], tl.dot(a, b), mask=r[:, None] < M)
"""
_DESCRIBED = {"A": F16, "B": F16, "C": F32, "M": "i32"}
PRODUCT_PAIRS["N112"] = Pair(
    source("described", _DESCRIPTORS, _DESCRIBED, {}), source("described_well", _POINTERS, _DESCRIBED, {})
)
# Ascend's Triton alone has hf32, and tiles of any size.
ONLY_ASCENDS_PRODUCTS = {
    "N512": _pair(
        "hf32", {"add": 'acc = tl.dot(a, b, acc, input_precision="hf32")'}, types={"A": F32, "B": F32}
    ),
    "N513": _pair(
        "odd_rows", {"blocks": {"BM": 63}}, {"blocks": {"BM": 64}}, store=_STORE.format("tl.exp(acc)")
    ),
}  # fmt: skip
