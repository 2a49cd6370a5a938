"""A convolution as loops: patches of an image times weights, summed over channels and taps; and its gradient for the
weights: patches times gradients of results, summed over images and places.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.utils import sympy_product

from inductor_npu.lowering.convolutions.choice import Merged, choose, merged, product_of
from inductor_npu.lowering.convolutions.loops import dot, is_one, total
from inductor_npu.lowering.convolutions.patches import Copy, Patches, Strides, in_image, is_channels_last
from inductor_npu.lowering.convolutions.weights import Weights
from inductor_npu.lowering.convolutions.window import Span, Window
from inductor_npu.lowering.operands import in_memory
from inductor_npu.tiling.cube import ProductSummary

_T = TypeVar("_T")


def convolve(
    image: ir.IRNode,
    window: Window,
    weights: Callable[[bool], Weights],
    groups: int,
    outer: sympy.Expr,
    phases: Sequence[int],
    dtype: torch.dtype,
) -> ir.TensorBox:
    """Returns the sums, over channels and taps, of what `window` covers of `image`, [N, C, *spatial], times `weights`,
    in `dtype`, for each phase of each place: [N, groups * outer, *(places * phases)]. `weights` places them so that the
    cube cores can read them where the sum's innermost loop is over channels, or over taps.
    """
    batch, channels, *_ = image.get_size()
    inner = channels // groups
    between = [size for pair in zip(window.places, phases, strict=True) for size in pair]

    def factors(patch: Callable[..., Any], last: bool, index: Sequence[Any], summed: Sequence[Any]) -> tuple[Any, Any]:
        first, *at, group, column = index
        channel, tap = _apart(summed, last)
        element = patch(first, group * inner + channel, at[::2], tap)
        return element, placed.load(group, column, channel, tap, at[1::2])

    def summarise(strides: Strides, last: bool) -> ProductSummary:
        rows = merged(_pairs([batch, *window.places], [strides.batch, *strides.place]))
        along = merged(_pairs(_joined(inner, window.taps, last), _joined(strides.channel, strides.tap, last)))
        others = groups * int(sympy_product(phases))
        return product_of(rows, _one(outer), along, others, image.get_dtype().itemsize, dtype.itemsize)

    if _is_for_cube(groups, [batch, *window.places], [outer], [inner, *window.taps]):
        source = choose(image, window, summarise)
        build, load, last = dot, source.patches(image, window).load, source.channels_last
        turned = source.copy is None and not last
    else:
        build, load, last = total, _for_vector_cores(image, window).load, True
        turned = not is_channels_last(image)
    # Where nothing is turned on the way, channels of the result lie as those of the image.
    placed, channel = weights(last), [groups, outer]
    made = build(
        image,
        dtype,
        lambda index, summed: factors(load, last, [index[0], *index[3:], *index[1:3]] if turned else index, summed),
        [batch, *channel, *between] if turned else [batch, *between, *channel],
        _joined(inner, window.taps, last),
    )
    sizes = [place * phase for place, phase in zip(window.places, phases, strict=True)]
    if turned:
        return lowering.view(made, [batch, groups * outer, *sizes])
    return _channels_second(made, [batch, *sizes, groups * outer])


def _channels_second(made: ir.TensorBox, sizes: Sequence[Any]) -> ir.TensorBox:
    """`made`, seen as a tensor of `sizes`, [N, *spatial, channels], as [N, channels, *spatial]."""
    return lowering.permute(lowering.view(made, sizes), [0, len(sizes) - 1, *range(1, len(sizes) - 1)])


def weight_gradient(
    gradient: ir.IRNode, image: ir.IRNode, window: Window, groups: int, dtype: torch.dtype
) -> tuple[ir.TensorBox, bool]:
    """Returns the sums, over images and places, of what `window` covers of `image`, [N, groups * inner, *spatial],
    times `gradient`, [N, groups * outer, *places], in `dtype`: contiguous [*taps, groups, outer, inner], and True; or
    [groups, outer, inner, *taps], and False.
    """
    batch, channels, *_ = image.get_size()
    inner, outer = channels // groups, gradient.get_size()[1] // groups
    places = Window(tuple(Span(length, length, 1) for length in window.places))
    of_results = in_image(in_memory(gradient, lambda node: in_image(node, places).strides.are_readable), places)
    reduced = [batch, *window.places]

    def factors(patch: Callable[..., Any], last: bool, index: Sequence[Any], summed: Sequence[Any]) -> tuple[Any, Any]:
        first, *place = summed
        *tap, group, row, channel = index if last else (*index[3:], *index[:3])
        of_result = of_results.load(first, group * outer + row, place, [sympy.S.Zero] * len(place))
        return of_result, patch(first, group * inner + channel, place, tap)

    def summarise(strides: Strides, last: bool) -> ProductSummary:
        # Taps lie outermost in the result, so that they are no part of the columns where channels are innermost.
        along = _pairs(_joined(inner, window.taps, last), _joined(strides.channel, strides.tap, last))
        columns = merged([(size, (*steps, sympy.S.One)) if last else (size, steps) for size, steps in along])
        theirs = [of_results.strides.batch, *of_results.strides.place]
        summed = merged(_pairs(reduced, [strides.batch, *strides.place], theirs))
        return product_of(_one(outer), columns, summed, groups, image.get_dtype().itemsize, dtype.itemsize)

    if not _is_for_cube(groups, [outer], [inner, *window.taps], reduced):
        patch = _for_vector_cores(image, window).load
        ranges = [*window.taps, groups, outer, inner]
        return total(image, dtype, lambda index, summed: factors(patch, True, index, summed), ranges, reduced), True
    source = choose(image, window, summarise)
    last, load = source.channels_last, source.patches(image, window).load
    ranges = [*window.taps, groups, outer, inner] if last else [groups, outer, inner, *window.taps]
    return dot(image, dtype, lambda index, summed: factors(load, last, index, summed), ranges, reduced), last


def _is_for_cube(groups: int, rows: Sequence[Any], columns: Sequence[Any], summed: Sequence[Any]) -> bool:
    """Whether this is a product of matrices: a vector times a matrix is not, nor are groups of one channel."""
    depthwise = groups > 1 and (is_one(summed[0]) or is_one(columns[0]))
    return not (depthwise or is_one(*rows) or is_one(*columns) or is_one(*summed))


def _for_vector_cores(image: ir.IRNode, window: Window) -> Patches:
    """What `window` covers of `image`, with zeros around it in a copy where it needs them."""
    if window.is_inside:
        return in_image(image, window)
    batch, channels, *_ = image.get_size()
    return Copy(window, batch, channels, 0, is_channels_last(image)).make(image)


def _one(length: sympy.Expr) -> list[Merged]:
    return merged([(length, (sympy.S.Zero,))])


def _joined(channel: _T, taps: Sequence[_T], channels_last: bool) -> list[_T]:
    return [*taps, channel] if channels_last else [channel, *taps]


def _apart(values: Sequence[_T], channels_last: bool) -> tuple[_T, Sequence[_T]]:
    """The reverse of `_joined`."""
    return (values[-1], values[:-1]) if channels_last else (values[0], values[1:])


def _pairs(sizes: Sequence[Any], *strides: Sequence[Any]) -> list[tuple[Any, tuple[Any, ...]]]:
    return list(zip(sizes, zip(*strides, strict=True), strict=True))
