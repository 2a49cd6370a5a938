"""Attention, forward and backward, with the masks that models have."""

from __future__ import annotations

from collections.abc import Iterator

from .form import Form, statements

_NAMES = ("BM", "BN", "D")
_BLOCKS = (
    (64, 64), (128, 64), (64, 128), (128, 128), (128, 192), (64, 256), (128, 256), (256, 64), (256, 128), (64, 512),
    (96, 256), (63, 64), (127, 128), (32, 512), (256, 256), (16, 1024),
)  # fmt: skip
_BACKWARD_BLOCKS = ((64, 64), (128, 64), (64, 128), (128, 128), (32, 128), (128, 32), (256, 64), (64, 256), (63, 64))

_PAIRS = "tl.load({} + rm[:, None] * T + rn[None, :], mask=(rm[:, None] < T) & (rn[None, :] < T), other=0)"
_MASKS = {
    "plain": "",
    "tail": "s = tl.where(rn[None, :] < T, s, -1e30)",
    "causal": "s = tl.where(rm[:, None] >= rn[None, :], s, -1e30)",
    "causal by a difference": "s = tl.where(df >= n0 - m0, s, -1e30)",
    "causal in a branch": "if n0 + BN > m0:\n    s = tl.where(rm[:, None] >= rn[None, :], s, -1e30)",
    "bias": f"s += {_PAIRS.format('X')}.to(tl.float32)",
    "bool mask": f"s = tl.where({_PAIRS.format('U')} != 0, s, -1e30)",
    "softcap": "e = tl.exp(s * 0.04)\ns = 50.0 * (e - 1.0) / (e + 1.0)",
    "scores of halves": "s = s.to(tl.float16).to(tl.float32)",
}


def _forward(mask: str) -> str:
    return f"""\
tm = tl.cdiv(T, BM)
d = tl.arange(0, D)
for t in range(tl.program_id(0), tm * H, tl.num_programs(0)):
    base = (t // tm) * T * D
    m0 = (t % tm) * BM
    rm = m0 + tl.arange(0, BM)
    q = tl.load(Q + base + rm[:, None] * D + d[None, :], mask=rm[:, None] < T, other=0.0)
    mi = tl.full((BM,), -1e30, tl.float32)
    li = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    df = tl.arange(0, BM)[:, None] - tl.arange(0, BN)[None, :]
    for n0 in range(0, T, BN):
        rn = n0 + tl.arange(0, BN)
        k = tl.load(K + base + rn[:, None] * D + d[None, :], mask=rn[:, None] < T, other=0.0)
        v = tl.load(V + base + rn[:, None] * D + d[None, :], mask=rn[:, None] < T, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale
{statements(mask, 2)}
        mn = tl.maximum(mi, tl.max(s, 1))
        p = tl.exp(s - mn[:, None])
        al = tl.exp(mi - mn)
        li = li * al + tl.sum(p, 1)
        acc = acc * al[:, None] + tl.dot(p.to(q.dtype), v)
        mi = mn
    o = acc / li[:, None]
    tl.store(O + base + rm[:, None] * D + d[None, :], o.to(O.dtype.element_ty), mask=rm[:, None] < T)
    tl.store(L + (t // tm) * T + rm, mi + tl.log(li), mask=rm < T)
"""


def _backward_of_keys(mask: str) -> str:
    """Gradients of keys and values: scores transposed, statistics loaded in the loop."""
    return f"""\
tm = tl.cdiv(T, BN)
d = tl.arange(0, D)
for t in range(tl.program_id(0), tm * H, tl.num_programs(0)):
    base = (t // tm) * T * D
    n0 = (t % tm) * BN
    rn = n0 + tl.arange(0, BN)
    k = tl.load(K + base + rn[:, None] * D + d[None, :], mask=rn[:, None] < T, other=0.0)
    v = tl.load(V + base + rn[:, None] * D + d[None, :], mask=rn[:, None] < T, other=0.0)
    dk = tl.zeros((BN, D), tl.float32)
    dv = tl.zeros((BN, D), tl.float32)
    for m0 in range(0, T, BM):
        rm = m0 + tl.arange(0, BM)
        q = tl.load(Q + base + rm[:, None] * D + d[None, :], mask=rm[:, None] < T, other=0.0)
        g = tl.load(G + base + rm[:, None] * D + d[None, :], mask=rm[:, None] < T, other=0.0)
        l = tl.load(L + (t // tm) * T + rm, mask=rm < T, other=0.0)
        delta = tl.load(E + (t // tm) * T + rm, mask=rm < T, other=0.0)
        s = tl.dot(k, tl.trans(q)) * scale
{statements(mask, 2)}
        p = tl.exp(s - l[None, :])
        dv = tl.dot(p.to(q.dtype), g, dv)
        dp = tl.dot(v, tl.trans(g))
        ds = p * (dp - delta[None, :]) * scale
        dk = tl.dot(ds.to(q.dtype), q, dk)
    tl.store(O + base + rn[:, None] * D + d[None, :], dk.to(O.dtype.element_ty), mask=rn[:, None] < T)
    tl.store(X + base + rn[:, None] * D + d[None, :], dv.to(X.dtype.element_ty), mask=rn[:, None] < T)
"""


def _backward_of_queries(scores: str, gradient: str, before: str = "", inside: str = "") -> str:
    """Gradients of queries; `before` and `inside` load the statistics before the loop or in it."""
    return f"""\
tm = tl.cdiv(T, BM)
d = tl.arange(0, D)
for t in range(tl.program_id(0), tm * H, tl.num_programs(0)):
    base = (t // tm) * T * D
    m0 = (t % tm) * BM
    rm = m0 + tl.arange(0, BM)
    q = tl.load(Q + base + rm[:, None] * D + d[None, :], mask=rm[:, None] < T, other=0.0)
    g = tl.load(G + base + rm[:, None] * D + d[None, :], mask=rm[:, None] < T, other=0.0)
{statements(before, 1)}
    dq = tl.zeros((BM, D), tl.float32)
    for n0 in range(0, T, BN):
        rn = n0 + tl.arange(0, BN)
        k = tl.load(K + base + rn[:, None] * D + d[None, :], mask=rn[:, None] < T, other=0.0)
        v = tl.load(V + base + rn[:, None] * D + d[None, :], mask=rn[:, None] < T, other=0.0)
{statements(inside, 2)}
{statements(scores, 2)}
        dq = tl.dot({gradient}, k, dq)
    tl.store(O + base + rm[:, None] * D + d[None, :], dq.to(O.dtype.element_ty), mask=rm[:, None] < T)
"""


_STATISTICS = """
l = tl.load(L + (t // tm) * T + rm, mask=rm < T, other=0.0)
delta = tl.load(E + (t // tm) * T + rm, mask=rm < T, other=0.0)
"""
_ROWS = """
p = tl.exp(tl.dot(q, tl.trans(k)) * scale - l[:, None])
ds = p * (tl.dot(g, tl.trans(v)) - delta[:, None]) * scale
"""
_COLUMNS = """
p = tl.exp(tl.dot(k, tl.trans(q)) * scale - l[None, :])
ds = p * (tl.dot(v, tl.trans(g)) - delta[None, :]) * scale
"""


def _types(kind: str) -> dict[str, str]:
    tensors = {"Q": kind, "K": kind, "V": kind, "O": kind, "G": kind, "X": kind, "U": "*u8", "L": "*fp32", "E": "*fp32"}
    return {**tensors, "scale": "fp32", "T": "i32", "H": "i32"}


def forms() -> list[Form]:
    """All of them."""
    return list(_forms())


def _forms() -> Iterator[Form]:
    for name, mask in _MASKS.items():
        for width in (64, 128):
            blocks = [(m, n, width) for m, n in _BLOCKS]
            yield Form("attention", f"forward {name} {width}", _forward(mask), _types("*fp16"), _NAMES, blocks)
    blocks = [(m, n, 64) for m, n in _BLOCKS]
    yield Form("attention", "forward plain fp32 64", _forward(""), _types("*fp32"), _NAMES, blocks)
    transposed = "s = tl.where(rm[None, :] >= rn[:, None], s, -1e30)"
    in_branch = f"if n0 + BN > m0:\n    {transposed}"
    for width in (64, 128):
        blocks = [(m, n, width) for m, n in _BACKWARD_BLOCKS]
        for name, mask in (("", ""), (" causal", transposed), (" causal in a branch", in_branch)):
            body = _backward_of_keys(mask)
            yield Form("backward", f"keys and values{name} {width}", body, _types("*fp16"), _NAMES, blocks)
        body = _backward_of_queries(_ROWS, "ds.to(q.dtype)", before=_STATISTICS)
        yield Form("backward", f"queries {width}", body, _types("*fp16"), _NAMES, blocks)
        body = _backward_of_queries(_COLUMNS, "tl.trans(ds.to(q.dtype))", inside=_STATISTICS)
        yield Form("backward", f"queries from transposed scores {width}", body, _types("*fp16"), _NAMES, blocks)
