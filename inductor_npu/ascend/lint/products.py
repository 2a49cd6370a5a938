"""What the rules ask of a kernel's dots: where operands and accumulators come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inductor_npu.simulator.triton_backend.ttir.cube_values import CubeValues
from inductor_npu.simulator.triton_backend.ttir.forms import DOTS, Forms
from inductor_npu.simulator.triton_backend.ttir.ir import Op, TensorType, Value

from .kernel import Kernel

_VIEWS = frozenset({"tt.trans", "tt.reshape", "tt.expand_dims", "tt.broadcast"})


@dataclass(frozen=True)
class Operand:
    """An operand of a dot, "a" or "b". `load` is what brings it to the chip, if nothing is computed of it, and
    `transposed` whether it is its transpose.
    """

    dot: Op
    side: str
    value: Value
    load: Op | None
    transposed: bool

    def axis_of_k(self) -> int:
        """The axis of the loaded tile along which the product sums."""
        return -1 if (self.side == "a") != self.transposed else -2


class Products:
    """The dots of a kernel."""

    def __init__(self, kernel: Kernel) -> None:
        self.dots = [op for op in kernel.ops if op.name in DOTS]
        self.cube = CubeValues(kernel.function, Forms(kernel.function)) if self.dots else None
        self._kernel = kernel

    def operands(self) -> Iterator[Operand]:
        for dot in self.dots:
            for side, value in zip("ab", dot.operands):
                source, transposed = value, False
                while source.owner is not None and source.owner.name in _VIEWS:
                    transposed ^= source.owner.name == "tt.trans"
                    source = source.owner.operands[0]
                load = source.owner
                is_load = load is not None and load.name == "tt.load" and isinstance(load.operands[0].type, TensorType)
                yield Operand(dot, side, value, load if is_load else None, transposed)

    def is_accumulator(self, value: Value) -> bool:
        """Whether it is a product, or the sum of products that a loop carries."""
        return self.cube is not None and value in self.cube.accumulators

    def made_of(self, value: Value) -> set[Value]:
        """All values that `value` is computed from, itself among them; through loops and branches, too."""
        found: set[Value] = set()
        waiting = [value]
        while waiting:
            current = waiting.pop()
            if current in found:
                continue
            found.add(current)
            if current.owner is not None:
                waiting += current.owner.operands
                waiting += [end for region in current.owner.regions for end in region.ops[-1].operands]
        return found

    def loops(self) -> Iterator[tuple[Op, list[Op]]]:
        """Each for loop with all operations inside it."""
        for loop in self._kernel.named("scf.for"):
            yield loop, list(loop.regions[0].walk())
