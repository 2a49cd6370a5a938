"""Plans the tiles of kernels of attention."""

from __future__ import annotations

import sympy
from torch._inductor.runtime.runtime_utils import next_power_of_2
from torch._inductor.virtualized import V

from inductor_npu import providers
from inductor_npu.codegen.attention.backward import KeyGradientKernel, QueryGradientKernel
from inductor_npu.codegen.attention.buffer import AttentionBuffer
from inductor_npu.codegen.attention.forward import ForwardKernel
from inductor_npu.codegen.attention.kernel import AttentionKernel
from inductor_npu.codegen.attention.problem import Attention
from inductor_npu.codegen.index.size_terms import hint
from inductor_npu.tiling.attention import AttentionSummary, Pass, plan_attention

# Bytes that a vector core holds for each score, by what is done with it (docs/attention.md has where they are from).
_SCORE_BYTES = {Pass.FORWARD: 4.2, Pass.KEYS_AND_VALUES: 12.0, Pass.QUERIES: 12.0}
_OF_CAUSAL = 6.5
_OF_MASK = 10.5
_OF_MODIFICATION = 4.4


def kernel_of(buffer: AttentionBuffer, share: float) -> AttentionKernel:
    """Returns the kernel of `buffer`, whose tiles are estimated to fill at most `share` (0 to 1) of the Unified Buffer.

    Raises NoTileError if no tile fits.
    """
    work = summary_of(buffer.which, buffer.attention)
    tile = plan_attention(work, providers.current_target(), share)
    match buffer.which:
        case Pass.FORWARD:
            return ForwardKernel(buffer.attention, buffer.results, work, tile)
        case Pass.KEYS_AND_VALUES:
            return KeyGradientKernel(buffer.attention, buffer.results, buffer.operands, work, tile)
        case Pass.QUERIES:
            return QueryGradientKernel(buffer.attention, buffer.results, buffer.operands, work, tile)


def summary_of(which: Pass, attention: Attention) -> AttentionSummary:
    """Returns what the planner has to know of one of the kernels of `attention`."""
    each = _SCORE_BYTES[which]
    each += _OF_MASK if attention.mask is not None else _OF_CAUSAL if attention.is_causal else 0
    each += _OF_MODIFICATION if attention.score is not None else 0
    heads = attention.heads * attention.batch
    if which is Pass.KEYS_AND_VALUES:
        heads = attention.shared_heads * attention.key.sizes[0]
    lists = attention.blocks
    longest_rows = longest_of(attention.rows, None if lists is None else lists.rows)
    longest_columns = longest_of(attention.columns, None if lists is None else lists.columns)
    return AttentionSummary(
        which=which,
        rows=max(1, hint(attention.rows)),
        columns=max(1, hint(attention.columns)),
        heads=max(1, hint(heads)),
        head=max(16, next_power_of_2(int(attention.query.sizes[3]))),
        value_head=max(16, next_power_of_2(int(attention.value.sizes[3]))),
        item_size=attention.query.dtype.itemsize,
        score_bytes=each,
        longest_rows=longest_rows,
        longest_columns=longest_columns,
    )


def longest_of(length: sympy.Expr, listed: int | None) -> int:
    """Returns how long a block of an axis may be: one of those that lists name consists of whole blocks, unless it is
    the only one.
    """
    if listed is None or V.graph.sizevars.statically_known_leq(length, listed):
        return 1 << 30
    return listed & -listed
