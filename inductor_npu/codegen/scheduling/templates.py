"""Makes kernels of what Inductor's scheduler hands on as templates: plans their tiles and writes them."""

from __future__ import annotations

from collections.abc import Callable

from torch._inductor import ir
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.scheduler import BaseSchedulerNode
from torch._inductor.virtualized import V

from inductor_npu.codegen.attention.buffer import AttentionBuffer
from inductor_npu.codegen.grouped.buffer import GroupedBuffer
from inductor_npu.codegen.scheduling import attention, grouped
from inductor_npu.codegen.templates.kernel import TemplateKernel
from inductor_npu.support.optional_steps import Kind, optional_step


def is_ours(buffer: ir.Buffer) -> bool:
    """Whether the template `buffer` stands for a kernel of ours."""
    return isinstance(buffer, AttentionBuffer | GroupedBuffer)


def define(
    scheduling: TritonScheduling, node: BaseSchedulerNode, share: float, note_filled: Callable[[int], None]
) -> TemplateKernel:
    """Writes the kernel of the template `node`, with tiles that fill at most `share` of the Unified Buffer, and defines
    it in the generated module. `note_filled` is told how many bytes they are estimated to fill.

    Raises NoTileError if no tile fits.
    """
    kernel = _kernel_of(node.node, share)
    note_filled(kernel.filled)
    kernel.nodes = [node]
    with V.set_kernel_handler(kernel):
        source = kernel.codegen_kernel()
    kernel.kernel_name = scheduling.define_kernel(source, [node], kernel)
    return kernel


@optional_step(Kind.TEMPLATE, "kernel")
def _kernel_of(buffer: AttentionBuffer | GroupedBuffer, share: float) -> TemplateKernel:
    if isinstance(buffer, AttentionBuffer):
        return attention.kernel_of(buffer, share)
    return grouped.kernel_of(buffer, share)


def launch(scheduling: TritonScheduling, node: BaseSchedulerNode, kernel: TemplateKernel) -> None:
    """Writes the launch of `kernel`, which is that of the template `node`."""
    with V.set_kernel_handler(kernel):
        node.mark_run()
    scheduling.codegen_comment([node], kernel.kernel_name)
    kernel.call_kernel(kernel.kernel_name)
    scheduling.free_buffers_in_scheduler()
