"""A kernel with `tl.dot` as text, with types and the block sizes to try."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from inductor_npu.ascend.kernel import KernelSource

_HEAD = """\
import triton
import triton.language as tl


@triton.jit
"""
ALL = "propagate_nan=tl.PropagateNan.ALL"


@dataclass(frozen=True)
class Form:
    """`name`d kernel of a `group`; `body` are the statements of its function, `blocks` the sizes of each choice, in the
    order of `names`.
    """

    group: str
    name: str
    body: str
    signature: dict[str, str]
    names: tuple[str, ...]
    blocks: Sequence[tuple[int, ...]]

    def source(self, sizes: tuple[int, ...]) -> KernelSource:
        """The kernel with these block sizes."""
        function = "".join(part if part.isalnum() else "_" for part in self.name)
        arguments = [*self.signature, *(f"{name}: tl.constexpr" for name in self.names)]
        body = textwrap.indent(self.body.strip("\n"), "    ")
        text = f"{_HEAD}def {function}({', '.join(arguments)}):\n{body}\n"
        pointers = tuple(name for name, type_ in self.signature.items() if type_.startswith("*"))
        return KernelSource(function, text, dict(self.signature), dict(zip(self.names, sizes)), pointers)


def statements(text: str, depth: int = 0) -> str:
    """`text` without its common indent, indented by `depth` levels."""
    return textwrap.indent(textwrap.dedent(text).strip("\n"), "    " * depth)
