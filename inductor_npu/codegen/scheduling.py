"""Which loops become one kernel, and how a finished kernel enters the generated module."""

from __future__ import annotations

from typing import Any

from torch._inductor.codegen.common import BackendFeature
from torch._inductor.codegen.triton import TritonScheduling
from torch.utils._ordered_set import OrderedSet

from inductor_npu.codegen import eager_kernel
from inductor_npu.codegen.async_compile import compile_in_process
from inductor_npu.codegen.kernel import NpuTritonKernel


class NpuScheduling(TritonScheduling):
    """TritonScheduling for `npu`.

    Two features of Inductor's Triton backend are left out: TRITON_TEMPLATES, because matrix products and convolutions
    call the eager operator (no copy is made), and FOREACH, because one kernel per tensor is found again by its source
    while one big kernel has to be compiled anew for every list of tensors.
    """

    kernel_type = NpuTritonKernel
    backend_features = OrderedSet(
        [
            BackendFeature.BUCKETIZE,
            BackendFeature.INPLACE_BUFFERS,
            BackendFeature.MASKED_SCATTER_WITH_INDEX,
            BackendFeature.SCAN,
            BackendFeature.SORT,
            BackendFeature.TUPLE_REDUCTION,
        ]
    )

    @classmethod
    def get_backend_features(cls, device: Any) -> OrderedSet[BackendFeature]:
        return cls.backend_features

    def _emit_kernel_to_wrapper(
        self,
        wrapper: Any,
        kernel: Any,
        src_code: str,
        kernel_name: str,
        subs_name: str,
        node_schedule: Any,
        kernel_path: str,
        get_kernel_metadata: Any,
    ) -> None:
        """Compiles the kernel now, so that one that cannot be compiled is replaced while its loops are still known.

        The compiled kernel is kept for the generated module, which finds it by its source. Where compilation fails,
        the module gets the same loops written as eager operators under the same name and with the same arguments, and
        a warning; with config.strict the error is raised.
        """
        failure = compile_in_process(subs_name, src_code)
        if failure is None:
            super()._emit_kernel_to_wrapper(
                wrapper, kernel, src_code, kernel_name, subs_name, node_schedule, kernel_path, get_kernel_metadata
            )
            return
        origins, detailed_origins = get_kernel_metadata(node_schedule, wrapper)
        source = eager_kernel.replace(kernel, kernel_name, node_schedule, failure)
        comment = f"# kernel path: {kernel_path}\n{origins}\n{detailed_origins}"
        wrapper.define_kernel(kernel_name, source, comment)
