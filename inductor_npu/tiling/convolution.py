"""The arguments of a convolution, and why it stays the library's operator."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import sympy
import torch
from torch._inductor.virtualized import V

from inductor_npu import config, providers
from inductor_npu.tiling import cube


@dataclass(frozen=True)
class Geometry:
    """The arguments of a convolution with `taps` elements in its window, a number for each spatial dimension."""

    taps: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    transposed: bool
    groups: int

    @staticmethod
    def of(
        weight: Sequence[Any],
        stride: Sequence[Any],
        padding: Sequence[Any],
        dilation: Sequence[Any],
        transposed: bool,
        groups: Any,
    ) -> Geometry:
        """That of an operator's arguments, which may have one number for all dimensions; `weight` are its sizes."""
        taps = _numbers(weight[2:])

        def each(numbers: Sequence[Any]) -> tuple[int, ...]:
            return _numbers(numbers) * (len(taps) if len(numbers) == 1 else 1)

        return Geometry(taps, each(stride), each(padding), each(dilation), transposed, *_numbers([groups]))

    @property
    def has_window(self) -> bool:
        """Whether results depend on more than one element of a channel, or not on all elements."""
        return any(tap > 1 for tap in self.taps) or any(step > 1 for step in self.stride) or any(self.padding)

    @property
    def is_patches(self) -> bool:
        """Whether each element of an image is read for one result: windows, also of one element, neither overlap nor
        leave gaps.
        """
        has_gaps = any(tap > 1 and apart > 1 for tap, apart in zip(self.taps, self.dilation, strict=True))
        return self.taps == self.stride and not any(self.padding) and not has_gaps


def _numbers(values: Sequence[Any]) -> tuple[int, ...]:
    """`values`, of which none may stay a symbol."""
    return tuple(
        int(V.graph.sizevars.guard_int(value)) if isinstance(value, sympy.Expr) else int(value) for value in values
    )


def reason_against(dtypes: Iterable[torch.dtype], sizes: Iterable[Any], geometry: Geometry) -> str:
    """Returns why no kernel of ours convolves tensors of these `dtypes`, with these `sizes` along any dimension; empty
    if one does.
    """
    dtypes = list(dtypes)
    reason = cube.why_library(dtypes, providers.current_target())
    if reason is not None:
        return reason
    if not dtypes[0].is_floating_point:
        return f"convolutions of {dtypes[0]}"
    if any(size == 0 for size in sizes):
        return "no elements"
    if any(step > 1 and apart > 1 for step, apart in zip(geometry.stride, geometry.dilation, strict=True)):
        return "a window with steps and gaps along one dimension"
    are_apart = geometry.is_patches and geometry.groups == 1
    if config.templates == "auto" and not are_apart and not providers.current_provider().convolves_windows:
        return "the provider's library is faster with windows that overlap"
    return ""


def reason_against_call(node: torch.fx.Node) -> str:
    """Returns why the library computes the convolution, or its gradients, that the call `node` of a graph is; empty if
    kernels of ours do.
    """
    image, weight = (operand.meta["val"] for operand in _operands(node))
    return reason_against((image.dtype, weight.dtype), (*image.shape, *weight.shape), _geometry(node))


def is_better_channels_last(node: torch.fx.Node) -> bool:
    """Whether the convolution `node` is a kernel of ours that reads neighbouring channels better than what lies as in
    an image of few channels.
    """
    return not reason_against_call(node) and _geometry(node).has_window


def _operands(node: torch.fx.Node) -> tuple[Any, ...]:
    """The image and the weight."""
    return node.args[_first(node) : _first(node) + 2]


def _geometry(node: torch.fx.Node) -> Geometry:
    # A number may be a size of the graph, which has a node of its own.
    arguments = torch.fx.map_arg(node.args[_first(node) + 3 : _first(node) + 9], lambda size: size.meta["val"])
    stride, padding, dilation, transposed, _, groups = arguments
    weight = _operands(node)[1].meta["val"]
    return Geometry.of(list(weight.shape), stride, padding, dilation, transposed, groups)


def _first(node: torch.fx.Node) -> int:
    """Which argument is the image."""
    return 1 if node.target == torch.ops.aten.convolution_backward.default else 0
