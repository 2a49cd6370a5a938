"""Block pointers (`tt.make_tensor_ptr`, `tt.advance`): where Triton's own passes left them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..ttir.ir import Op, PointerType, TensorType, Value
from .coordinates import Coordinates
from .errors import UnsupportedOperation
from .lanes import Lane

if TYPE_CHECKING:
    from .kernel import KernelGenerator
    from .nest import Frame


class BlockPointers:
    def __init__(self, kernel: KernelGenerator) -> None:
        self.kernel = kernel

    def is_block_pointer(self, value: Value) -> bool:
        return isinstance(value.type, PointerType) and isinstance(value.type.pointee, TensorType)

    def define(self, op: Op) -> None:
        raise UnsupportedOperation(op, "block pointers must be rewritten to plain pointers before code generation")

    def access(self, frame: Frame, op: Op, coordinates: Coordinates) -> tuple[Lane, Lane | None, Lane | None]:
        raise UnsupportedOperation(op, "block pointers must be rewritten to plain pointers before code generation")
