"""Lowers convolutions on `npu`, and their gradients, to loops: products, on the cube cores, of what the window covers
with the weights; sums on the vector cores where groups have one channel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import sympy
import torch
from torch._inductor import ir, lowering
from torch._inductor.virtualized import V, ops
from torch.utils._sympy.functions import FloorDiv

from inductor_npu.lowering.convolutions import products
from inductor_npu.lowering.convolutions.choice import merged
from inductor_npu.lowering.convolutions.weights import Weights, gathering, packed, scattering
from inductor_npu.lowering.convolutions.window import Span, Window
from inductor_npu.lowering.operands import in_memory, is_on_npu, or_else
from inductor_npu.tiling.convolution import Geometry, reason_against

_aten = torch.ops.aten


def register() -> None:
    """Takes the place of Inductor's lowerings of convolutions, for tensors on `npu`."""
    for operator, lower in ((_aten.convolution, _convolution), (_aten.convolution_backward, _backward)):
        original = lowering.lowerings[operator.default]
        if operator is _aten.convolution_backward:
            original = _as_call_of_the_library(original)
        lowering.register_lowering([operator.default], type_promotion_kind=None)(
            or_else(original, lower, str(operator))
        )


def _as_call_of_the_library(original: Callable[..., Any]) -> Callable[..., Any]:
    """The lowering `original` of a convolution's gradients, but on `npu` the call alone, with operands as they are.

    From torch 2.13 on Inductor copies the operands into the orders in which its templates for CUDA read them, also
    where it then calls the library (`convolution_backward_lowering` in torch/_inductor/kernel/conv.py). Where it
    chooses layouts for the whole graph, that is its choice.
    """
    call = lowering.fallback_handler(_aten.convolution_backward.default, add_to_fallback_set=False)

    @functools.wraps(original)
    def chosen(*args: Any, **options: Any) -> Any:
        is_ours = any(map(is_on_npu, args)) and not V.graph.layout_opt
        return (call if is_ours else original)(*args, **options)

    return chosen


# -- operators --------------------------------------------------------------------------------------------------------


def _convolution(
    image: ir.TensorBox,
    weight: ir.TensorBox,
    bias: ir.TensorBox | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> ir.TensorBox | None:
    dimensions = len(weight.get_size()) - 2
    geometry = Geometry.of(weight.get_size(), stride, padding, dilation, transposed, groups)
    if _is_for_library(image, weight, geometry):
        return None
    dtype = image.get_dtype()
    # The sum is rounded once, as in eager, also where it is a kernel of its own.
    summed_in = dtype if bias is None else torch.float32
    if transposed:
        more = V.graph.sizevars.guard_int_seq(output_padding)
        sizes = _spread_sizes(image.get_size()[2:], geometry, more * (dimensions if len(more) == 1 else 1))
        result = _spread(image, weight, sizes, geometry, summed_in)
    else:
        result = _gather(image, weight, geometry, summed_in)
    if bias is None:
        return result
    return _with_bias(result, bias, dtype)


def _with_bias(result: ir.TensorBox, bias: ir.TensorBox, dtype: torch.dtype) -> ir.TensorBox:
    """`result`, [N, C, *spatial] in float32, plus `bias`, [C], in `dtype`."""
    load, load_bias = result.make_loader(), bias.make_loader()

    def added(index: Sequence[sympy.Expr]) -> Any:
        return load(index) + ops.to_dtype(load_bias([index[1]]), torch.float32)

    return ir.Pointwise.create(device=result.get_device(), dtype=dtype, inner_fn=added, ranges=result.get_size())


def _backward(
    gradient: ir.TensorBox,
    image: ir.TensorBox,
    weight: ir.TensorBox,
    bias_sizes: Any,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[ir.TensorBox | None, ...] | None:
    dimensions = len(weight.get_size()) - 2
    geometry = Geometry.of(weight.get_size(), stride, padding, dilation, transposed, groups)
    if _is_for_library(image, weight, geometry):
        return None
    of_image = of_weight = of_bias = None
    if output_mask[0]:
        if transposed:
            of_image = _gather(gradient, weight, geometry, image.get_dtype())
        else:
            of_image = _spread(gradient, weight, image.get_size()[2:], geometry, image.get_dtype())
    if output_mask[1]:
        pair = (image, gradient) if transposed else (gradient, image)
        of_weight = _weight_gradient(*pair, weight, geometry)
    if output_mask[2]:
        of_bias = lowering.sum_(gradient, [0, *range(2, dimensions + 2)])
    return of_image, of_weight, of_bias


def _is_for_library(image: ir.TensorBox, weight: ir.TensorBox, geometry: Geometry) -> bool:
    sizes = (*image.get_size(), *weight.get_size())
    return bool(reason_against((image.get_dtype(), weight.get_dtype()), sizes, geometry))


# -- what they compute ------------------------------------------------------------------------------------------------


def _gather(image: ir.TensorBox, weight: ir.TensorBox, geometry: Geometry, dtype: torch.dtype) -> ir.TensorBox:
    """Sums over what the window covers of `image`, [N, C, *spatial], at each of its places, in `dtype`."""
    outer, taps = V.graph.sizevars.guard_int(weight.get_size()[0]), geometry.taps
    spans = []
    for length, count, step, apart, before in zip(
        image.get_size()[2:], taps, geometry.stride, geometry.dilation, geometry.padding, strict=True
    ):
        places = FloorDiv(length + 2 * before - apart * (count - 1) - 1, step) + 1
        spans.append(Span(length, places, count, step, apart, before))

    def weights(channels_last: bool) -> Weights:
        return gathering(_readable(weight, taps, channels_last), geometry.groups)

    ones = [1] * len(taps)
    return products.convolve(
        _placed(image), Window(tuple(spans)), weights, geometry.groups, outer // geometry.groups, ones, dtype
    )


def _spread(
    image: ir.TensorBox, weight: ir.TensorBox, sizes: Sequence[sympy.Expr], geometry: Geometry, dtype: torch.dtype
) -> ir.TensorBox:
    """What the elements of `image`, [N, C, *spatial], spread over the window at their places, summed, in `dtype`:
    the gradient of a convolution of images of `sizes`, or a transposed convolution.

    Along a dimension with steps, `step` neighbours of the result, one in each phase, come from the same elements: their
    window has every `step`-th tap. Where the taps are no multiple, zeros are added to the weights.
    """
    outer = V.graph.sizevars.guard_int(weight.get_size()[1])
    whole = [-(-count // step) * step for count, step in zip(geometry.taps, geometry.stride, strict=True)]
    spans, first = [], []
    for length, size, count, step, apart, before in zip(
        image.get_size()[2:], sizes, whole, geometry.stride, geometry.dilation, geometry.padding, strict=True
    ):
        kept = count // step
        # Without steps, places are those of the result; with steps those of all that the window covers.
        if step == 1:
            places, start = size, 0
            spans.append(Span(length, places, kept, 1, apart, apart * (kept - 1) - before))
        else:
            places, start = FloorDiv(size + before - 1, step) + 1, before
            spans.append(Span(length, places, kept, 1, 1, kept - 1))
        first.append(start)

    def weights(channels_last: bool) -> Weights:
        return scattering(_readable(weight, whole, True), geometry.groups, geometry.stride)

    result = products.convolve(
        _placed(image), Window(tuple(spans)), weights, geometry.groups, outer, geometry.stride, dtype
    )
    for dimension, (start, size) in enumerate(zip(first, sizes, strict=True)):
        view = ir.SliceView.create(result.data, dimension + 2, start, start + size, clamp=False)
        result = ir.TensorBox(view)
    return result


def _spread_sizes(sizes: Sequence[sympy.Expr], geometry: Geometry, more: Sequence[int]) -> list[sympy.Expr]:
    """Of a transposed convolution's result, by those of its operand."""
    each = zip(sizes, geometry.taps, geometry.stride, geometry.padding, geometry.dilation, more, strict=True)
    return [
        (size - 1) * step - 2 * before + apart * (tap - 1) + extra + 1 for size, tap, step, before, apart, extra in each
    ]


def _weight_gradient(
    gradient: ir.TensorBox, image: ir.TensorBox, weight: ir.TensorBox, geometry: Geometry
) -> ir.TensorBox:
    """The gradient of a convolution's `weight` by that of its results and its `image`; of a transposed one's, by its
    operand and the gradient of its results.
    """
    outer, inner, *taps = V.graph.sizevars.guard_int_seq(weight.get_size())
    each = zip(
        image.get_size()[2:],
        gradient.get_size()[2:],
        taps,
        geometry.stride,
        geometry.dilation,
        geometry.padding,
        strict=True,
    )
    window = Window(tuple(Span(*numbers) for numbers in each))
    made, last = products.weight_gradient(
        _placed(gradient), _placed(image), window, geometry.groups, weight.get_dtype()
    )
    if not last:
        return lowering.view(made, [outer, inner, *taps])
    count = len(taps)
    return lowering.permute(lowering.view(made, [*taps, outer, inner]), [count, count + 1, *range(count)])


# -- operands and results ---------------------------------------------------------------------------------------------


def _placed(image: ir.TensorBox) -> ir.IRNode:
    """`image`, [N, C, *spatial], in memory; with neighbouring channels, where its memory is not decided yet and layouts
    are ours to choose.
    """
    realized = ir.ExternKernel.realize_input(image)
    if V.graph.layout_opt and isinstance(realized.get_layout(), ir.FlexibleLayout):
        dimensions = len(image.get_size()) - 2
        realized = ir.ExternKernel.require_stride_order(realized, [dimensions + 1, 0, *range(dimensions, 0, -1)])
    return in_memory(realized, lambda _: True)


def _readable(weight: ir.TensorBox, taps: Sequence[int], channels_last: bool) -> ir.IRNode:
    """`weight`, with zeros up to `taps`, in memory where the cube cores can read it: with neighbouring channels, or all
    taps of a channel behind one another.
    """
    stored = in_memory(weight, lambda _: True)
    known = V.graph.sizevars.statically_known_equals
    strides, sizes = stored.get_layout().stride, stored.get_size()
    rows = list(zip(sizes[1:], strides[1:], strict=True))
    if channels_last:
        is_good = any(known(step, 1) and not known(size, 1) for size, step in zip(sizes[:2], strides[:2], strict=True))
    else:
        is_good = [loop.is_unit for loop in merged([(size, (step,)) for size, step in rows])] == [True]
    if is_good and all(known(size, count) for size, count in zip(sizes[2:], taps, strict=True)):
        return stored
    return ir.ExternKernel.realize_input(packed(stored, taps, channels_last))
