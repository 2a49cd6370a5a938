"""Kernels that users wrote, in the wrapper of a graph."""

from __future__ import annotations

from typing import Any

from inductor_npu.codegen.annotations import provenance
from inductor_npu.codegen.emit import float_arguments
from inductor_npu.codegen.emit.emitted import EmittedKernel


class KernelsOfUsers:
    """Has user-written kernels launched like generated ones, with their origin on record."""

    @classmethod
    def _get_triton_info_kernel_cls(cls) -> type[EmittedKernel]:
        """The class that provides imports and metadata of user-written kernels. Inductor calls this hook for every
        backend, in spite of the underscore.
        """
        return EmittedKernel

    def define_user_defined_triton_kernel(self, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        """As Inductor's; records the origin of the user-written kernel first."""
        provenance.remember_user_kernel(kernel)
        with float_arguments.of_user_kernel():
            return super().define_user_defined_triton_kernel(kernel, *args, **kwargs)  # type: ignore[misc]
