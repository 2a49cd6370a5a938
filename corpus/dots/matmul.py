"""Products of matrices: layouts, types, prologues, epilogues, two products in one kernel."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .form import ALL, Form, statements

_NAMES = ("BM", "BN", "BK")
# Around the limits of L0C (128 KiB) and of what epilogues take of the Unified Buffer; odd rows are not halved.
_EPILOGUE_BLOCKS = (
    (64, 64, 64), (128, 128, 64), (128, 192, 64), (96, 256, 64), (192, 128, 64), (128, 256, 64), (256, 128, 64),
    (64, 512, 32), (512, 64, 32), (144, 224, 64), (160, 160, 64), (192, 192, 64), (128, 320, 64), (63, 64, 64),
    (65, 128, 64), (95, 128, 64), (127, 128, 64), (127, 256, 64), (32, 1024, 16), (16, 2048, 16),
)  # fmt: skip
# Around the limit of L1, with one buffer and with two.
_OPERAND_BLOCKS = (
    (64, 64, 256), (128, 128, 512), (128, 256, 256), (128, 256, 384), (128, 256, 704), (160, 192, 256),
    (128, 128, 1024), (128, 128, 1040), (256, 128, 512), (16, 256, 256), (16, 256, 1024),
    (16, 256, 960), (17, 33, 19), (100, 72, 40), (1, 256, 256), (128, 257, 64), (129, 256, 64), (64, 512, 448),
    (64, 512, 512), (384, 96, 64),
)  # fmt: skip

_LOADS = {
    "a": "a = tl.load(A + rm[:, None] * K + k[None, :], mask=(rm[:, None] < M) & (k[None, :] < K), other=0)",
    "at": "a = tl.trans(tl.load(A + k[:, None] * M + rm[None, :], mask=(k[:, None] < K) & (rm[None, :] < M), other=0))",
    "b": "b = tl.load(B + k[:, None] * N + rn[None, :], mask=(k[:, None] < K) & (rn[None, :] < N), other=0)",
    "bt": "b = tl.trans(tl.load(B + rn[:, None] * K + k[None, :], mask=(rn[:, None] < N) & (k[None, :] < K), other=0))",
}


def _body(
    epilogue: str = "v = acc",
    loads: Sequence[str] = (_LOADS["a"], _LOADS["b"]),
    accumulator: str = "tl.float32",
    first: str = "",
    product: str = "acc = tl.dot(a, b, acc)",
    store: str = "tl.store(C + rm[:, None] * N + rn[None, :], v.to(C.dtype.element_ty), mask=m)",
) -> str:
    """The persistent loop over tiles, each with its loop over K."""
    start = statements(first, 1) if first else f"    acc = tl.zeros((BM, BN), {accumulator})"
    begin = "BK" if first else "0"
    return f"""\
tn = tl.cdiv(N, BN)
for t in range(tl.program_id(0), tl.cdiv(M, BM) * tn, tl.num_programs(0)):
    rm = (t // tn) * BM + tl.arange(0, BM)
    rn = (t % tn) * BN + tl.arange(0, BN)
    m = (rm[:, None] < M) & (rn[None, :] < N)
    at = rm[:, None] * N + rn[None, :]
{start}
    for k0 in range({begin}, K, BK):
        k = k0 + tl.arange(0, BK)
{statements(chr(10).join(loads), 2)}
{statements(product, 2)}
{statements(epilogue, 1)}
    {store}
"""


_BIAS = "bias = tl.load(P + rn, mask=rn < N, other=0.0).to(tl.float32)"
_ROW = "row = tl.load(Q + rm, mask=rm < M, other=0.0)"
_TILE = "r = tl.load(R + at, mask=m, other=0)"
_SILU = "{0} / (1.0 + tl.exp(-{0}))"
_ERF = "0.5 * {0} * (1.0 + tl.erf({0} * 0.7071067811865476))"
_TANH = "{0} / (1.0 + tl.exp(-1.5957691216057308 * ({0} + 0.044715 * {0} * {0} * {0})))"
_ROW_STATISTICS = "mx = tl.max(acc, 1)\ns = tl.sum(tl.exp(acc - mx[:, None]), 1)"
_STORE_ROWS = "tl.store(Q + rm, mx, mask=rm < M)\ntl.store(O + rm, s, mask=rm < M)"
_SIGMOID = "s = 1.0 / (1.0 + tl.exp(-x))"
EPILOGUES = {
    "bias": f"{_BIAS}\nv = acc + bias[None, :]",
    "bias of halves": f"{_BIAS}\nv = acc.to(tl.float16) + bias[None, :].to(tl.float16)",
    "scale": "v = acc * scale",
    "row and column scale": f"{_BIAS}\n{_ROW}\nv = acc * row[:, None] * bias[None, :]",
    "relu": f"v = tl.maximum(acc, 0.0, {ALL})",
    "relu by where": "v = tl.where(acc > 0.0, acc, 0.0)",
    "relu by maximum": "v = tl.maximum(acc, 0.0)",
    "residual": f"{_TILE}\nv = acc + r.to(tl.float32)",
    "bias and residual": f"{_BIAS}\n{_TILE}\nv = acc + bias[None, :] + r.to(tl.float32)",
    "silu": f"v = {_SILU.format('acc')}",
    "gelu tanh": f"v = {_TANH.format('acc')}",
    "gelu erf": f"v = {_ERF.format('acc')}",
    "bias and gelu erf": f"{_BIAS}\nx = acc + bias[None, :]\nv = {_ERF.format('x')}",
    "bias and gelu tanh": f"{_BIAS}\nx = acc + bias[None, :]\nv = {_TANH.format('x')}",
    "bias and silu": f"{_BIAS}\nx = acc + bias[None, :]\nv = {_SILU.format('x')}",
    "sigmoid": "v = 1.0 / (1.0 + tl.exp(-acc))",
    "dropout mask": "keep = tl.load(U + at, mask=m, other=0)\nv = acc * keep.to(tl.float32) * scale",
    "gate": f"{_TILE}\nv = {_SILU.format('acc')} * r.to(tl.float32)",
    "product with a tile": f"{_TILE}\nv = acc * r.to(tl.float32)",
    "row softmax": f"{_ROW_STATISTICS}\nv = tl.exp(acc - mx[:, None]) / s[:, None]",
    "row maximum and sum": f"{_ROW_STATISTICS}\n{_STORE_ROWS}\nv = acc",
    "row sum of squares": "tl.store(Q + rm, tl.sum(acc * acc, 1), mask=rm < M)\nv = acc",
    "row sum of squares alone": "tl.store(Q + rm, tl.sum(acc * acc, 1), mask=rm < M)\nv = acc * scale",
    "column sum": "tl.store(P + rn, tl.sum(acc, 0), mask=rn < N)\nv = acc",
    "two outputs": f"tl.store(R + at, acc.to(R.dtype.element_ty), mask=m)\nv = {_SILU.format('acc')}",
    "two casts": "tl.store(O + at, acc, mask=m)\nv = acc",
    "gradient of relu": f"{_TILE}\nv = tl.where(r > 0, acc, 0.0)",
    "gradient of silu": f"{_TILE}\nx = r.to(tl.float32)\n{_SIGMOID}\nv = acc * s * (1.0 + x * (1.0 - s))",
}


def _types(kind: str = "*fp16", result: str | None = None) -> dict[str, str]:
    used = {"A": kind, "B": kind, "C": result or kind, "R": kind, "P": "*fp32", "Q": "*fp32", "O": "*fp32", "U": "*u8"}
    return {**used, "scale": "fp32", "M": "i32", "N": "i32", "K": "i32"}


def _products() -> Iterator[Form]:
    for name, kind, result in (
        ("fp16", "*fp16", None), ("bf16", "*bf16", None), ("fp32", "*fp32", None), ("fp16 to fp32", "*fp16", "*fp32"),
    ):  # fmt: skip
        yield Form("plain", f"plain {name}", _body(), _types(kind, result), _NAMES, _OPERAND_BLOCKS)
    wide = [(m, n, 2 * k) for m, n, k in _OPERAND_BLOCKS]
    yield Form("plain", "plain int8", _body(accumulator="tl.int32"), _types("*i8", "*i32"), _NAMES, wide)
    for name, loads in (
        ("a transposed", ("at", "b")),
        ("b transposed", ("a", "bt")),
        ("both transposed", ("at", "bt")),
    ):
        body = _body(loads=[_LOADS[load] for load in loads])
        yield Form("plain", name, body, _types(), _NAMES, _OPERAND_BLOCKS)
    peeled = f"k = tl.arange(0, BK)\n{_LOADS['a']}\n{_LOADS['b']}\n{_BIAS}\n"
    peeled += "acc = tl.dot(a, b, tl.broadcast_to(bias[None, :], (BM, BN)))"
    yield Form("plain", "bias in the first step", _body(first=peeled), _types(), _NAMES, _OPERAND_BLOCKS)
    one = "i = tl.arange(0, BM)\ne = tl.load(R + i[:, None] * BM + i[None, :])\n"
    one += "acc = tl.dot(e, tl.load(O + at, mask=m, other=0), acc)"
    types = {**_types(), "O": "*fp16"}
    yield Form("plain", "residual by an identity", _body(f"{one}\nv = acc"), types, _NAMES, _OPERAND_BLOCKS)


def _epilogues() -> Iterator[Form]:
    for name, epilogue in EPILOGUES.items():
        yield Form("epilogue", name, _body(epilogue), _types(), _NAMES, _EPILOGUE_BLOCKS)
    for name in ("bias and gelu erf", "residual", "row softmax", "scale"):
        body = _body(EPILOGUES[name])
        yield Form("epilogue", f"{name} fp32", body, _types("*fp32"), _NAMES, _EPILOGUE_BLOCKS)
        yield Form("epilogue", f"{name} bf16", body, _types("*bf16"), _NAMES, _EPILOGUE_BLOCKS)
    scales = f"{_BIAS}\n{_ROW}\nv = acc.to(tl.float32) * row[:, None] * bias[None, :]"
    for name, result in (("fp16", "*fp16"), ("fp32", "*fp32")):
        body = _body(scales, accumulator="tl.int32")
        yield Form("epilogue", f"int8 with scales to {name}", body, _types("*i8", result), _NAMES, _EPILOGUE_BLOCKS)


def _two_products() -> Iterator[Form]:
    second = _LOADS["b"].replace("b = tl.load(B", "c = tl.load(D")
    body = _body(
        "v = acc / (1.0 + tl.exp(-acc)) * up",
        (_LOADS["a"], _LOADS["b"], second),
        first="acc = tl.zeros((BM, BN), tl.float32)\nup = tl.zeros((BM, BN), tl.float32)",
        product="acc = tl.dot(a, b, acc)\nup = tl.dot(a, c, up)",
    ).replace("range(BK, K", "range(0, K")
    yield Form("two products", "swiglu", body, {**_types(), "D": "*fp16"}, _NAMES, _EPILOGUE_BLOCKS)
    for name, activation in (("relu", f"tl.maximum(acc, 0.0, {ALL})"), ("silu", _SILU.format("acc"))):
        epilogue = f"""
        h = ({activation}).to(tl.float16)
        for n0 in range(0, L, BN):
            rl = n0 + tl.arange(0, BN)
            d = tl.load(D + rn[:, None] * L + rl[None, :], mask=(rn[:, None] < N) & (rl[None, :] < L), other=0)
            ml = (rm[:, None] < M) & (rl[None, :] < L)
            tl.store(C + rm[:, None] * L + rl[None, :], tl.dot(h, d).to(tl.float16), mask=ml)
        """
        body = _body(statements(epilogue), store="pass")
        yield Form(
            "two products", f"chain {name}", body, {**_types(), "D": "*fp16", "L": "i32"}, _NAMES, _EPILOGUE_BLOCKS
        )


def _prologues() -> Iterator[Form]:
    quantised = _LOADS["b"] + "\nb = b.to(tl.float16)"
    scaled = f"{_BIAS}\n{_LOADS['b']}\nb = (b.to(tl.float32) * bias[None, :]).to(tl.float16)"
    gate = _LOADS["a"].replace("a = tl.load(A", "u = tl.load(D")
    gated = f"{_LOADS['a']}\n{gate}\ng = a.to(tl.float32)\na = ({_SILU.format('g')} * u.to(tl.float32)).to(tl.float16)"
    normed = f"{_ROW}\nw = tl.load(P + k, mask=k < K, other=0.0)\n{_LOADS['a']}\n"
    normed += "a = (a.to(tl.float32) * row[:, None] * w[None, :]).to(tl.float16)"
    for name, loads, types in (
        ("int8 weights", (_LOADS["a"], quantised), {"B": "*i8"}),
        ("int8 weights with scales", (_LOADS["a"], scaled), {"B": "*i8"}),
        ("gated operand", (gated, _LOADS["b"]), {"D": "*fp16"}),
        ("normalised operand", (normed, _LOADS["b"]), {}),
        ("fp32 cast to fp16", (_LOADS["a"] + "\na = a.to(tl.float16)", _LOADS["b"]), {"A": "*fp32"}),
        ("scaled operand", (_LOADS["a"] + "\na = a * 0.5", _LOADS["b"]), {}),
    ):
        blocks = [(m, n, k) for m, n, k in _OPERAND_BLOCKS if m % 2 == 0 and n % 16 == 0]
        blocks += [(128, 128, 128), (128, 128, 256), (256, 128, 128), (64, 128, 512), (128, 256, 128)]
        yield Form("prologue", name, _body(loads=loads), {**_types(), **types}, _NAMES, blocks)


def forms() -> list[Form]:
    """All of them."""
    return [*_products(), *_epilogues(), *_two_products(), *_prologues()]
