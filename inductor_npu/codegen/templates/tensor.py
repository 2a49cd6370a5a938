"""A tensor in memory, as a kernel without loops of Inductor's reads and writes it."""

from __future__ import annotations

from dataclasses import dataclass

import sympy
import torch
from torch._inductor import ir


@dataclass(frozen=True)
class Tensor:
    """A tensor in memory, in elements of `buffer`."""

    buffer: str
    sizes: tuple[sympy.Expr, ...]
    strides: tuple[sympy.Expr, ...]
    offset: sympy.Expr
    dtype: torch.dtype

    @classmethod
    def of(cls, node: ir.IRNode) -> Tensor:
        """The tensor of Inductor's `node`, which is in memory and whose layout is fixed."""
        layout = node.get_layout()
        return cls(
            node.get_name(),
            tuple(map(sympy.sympify, layout.size)),
            tuple(map(sympy.sympify, layout.stride)),
            sympy.sympify(layout.offset),
            layout.dtype,
        )

    def start(self, *indices: sympy.Expr) -> sympy.Expr:
        """The address of the element with these first indices, and 0 along all other axes."""
        known = zip(indices, self.sizes, self.strides, strict=False)
        return self.offset + sum(index * stride for index, size, stride in known if size != 1)

    @property
    def end(self) -> sympy.Expr:
        """The address of the last element; before `offset` where there is none."""
        return self.offset + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))
