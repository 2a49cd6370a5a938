"""The Python module that Inductor generates around the kernels: allocations, guards, launches."""

from __future__ import annotations

from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.codegen.wrapper import PythonWrapperCodegen, SubgraphPythonWrapperCodegen
from torch._inductor.scheduler import ForeachKernelSchedulerNode
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V

from inductor_npu import config, providers
from inductor_npu.codegen import attempt
from inductor_npu.codegen.analysis.live_buffers import describe_memory
from inductor_npu.codegen.wrapper import captures, cpu_launches, donated_results, operator_calls
from inductor_npu.codegen.wrapper.user_kernels import KernelsOfUsers


class NpuAllocation:
    """Allocates `npu` tensors through the provider's fast path, if it has one, as Inductor does for its built-in
    devices.
    """

    def run_wrapper_ir_passes(self, is_inference: bool) -> None:
        """As Inductor's, which asks the scheduler's nodes who reads what, to know which memory can be used again. Nodes
        that have become one node of several kernels since they were asked are asked again.
        """
        nodes = V.graph.scheduler.nodes
        if any(isinstance(node, ForeachKernelSchedulerNode) for node in nodes):
            describe_memory(nodes)
        super().run_wrapper_ir_passes(is_inference)  # type: ignore[misc]

    def make_allocation(
        self,
        name: str,
        device: Any,
        dtype: Any,
        shape: Any,
        stride: Any,
        allocation_shape: Any = None,
        is_pinned: bool = False,
    ) -> str:
        if device.type != "npu" or providers.current_provider().empty_strided is None:
            return super().make_allocation(name, device, dtype, shape, stride, allocation_shape, is_pinned)  # type: ignore[misc]
        sizes = self.codegen_python_shape_tuple(shape)  # type: ignore[attr-defined]
        allocated = self.codegen_python_shape_tuple(shape if allocation_shape is None else allocation_shape)  # type: ignore[attr-defined]
        strides = self.codegen_python_shape_tuple(stride)  # type: ignore[attr-defined]
        line = f"{name} = empty_strided_npu({allocated}, {strides}, {dtype})"
        return line if allocated == sizes else f"{line}.as_strided({sizes}, {strides})"


class FilledMemory:
    """With `config.fill_memory`, memory that a graph uses again is filled like what the allocator hands out."""

    def make_buffer_reuse(self, old: Any, new: Any, delete_old: bool) -> str:
        line = super().make_buffer_reuse(old, new, delete_old)  # type: ignore[misc]
        is_written_over = self.reuses.get(new.get_name()) == old.get_name()  # type: ignore[attr-defined]
        if is_written_over or not _fills(new.get_device()):
            return line
        statements, mark, comment = line.partition("  # ")
        return f"{statements}; fill_as_fresh_npu({new.get_name()}){mark}{comment}"


def _fills(device: torch.device) -> bool:
    return config.fill_memory and device.type == "npu" and providers.current_provider().empty_strided is not None


class NumbersOfTheHost:
    """Reads scalar arguments from CPU tensors without dispatching an operator. `item()` dispatches one, and under a
    dispatch mode a tensor that stands for a number (compiled autograd lifts such tensors) arrives as a plain number.
    """

    def prepare_triton_kernel_call(self, call_args: Any) -> list[str]:
        arguments = super().prepare_triton_kernel_call(call_args)  # type: ignore[misc]
        return [f"{text.removesuffix('.item()')}.tolist()" if text.endswith(".item()") else text for text in arguments]


class CommentedCalls:
    """Adds comments to operator calls: the user's lines, and why no kernel was generated. Launches of CPU kernels,
    which Inductor generates, get comments as well.
    """

    def generate_fallback_kernel(self, node: Any) -> None:
        self._comment_on(node)
        super().generate_fallback_kernel(node)  # type: ignore[misc]

    def generate_extern_kernel_alloc(self, node: Any) -> None:
        self._comment_on(node)
        super().generate_extern_kernel_alloc(node)  # type: ignore[misc]

    def generate_extern_kernel_out(self, node: Any) -> None:
        self._comment_on(node)
        super().generate_extern_kernel_out(node)  # type: ignore[misc]

    def generate_extern_kernel_multi_out(self, node: Any) -> None:
        self._comment_on(node)
        super().generate_extern_kernel_multi_out(node)  # type: ignore[misc]

    def generate_scatter_fallback(self, node: Any) -> None:
        self._comment_on(node)
        super().generate_scatter_fallback(node)  # type: ignore[misc]

    def generate_index_put_fallback(self, node: Any) -> None:
        self._comment_on(node)
        super().generate_index_put_fallback(node)  # type: ignore[misc]

    def generate_kernel_call(self, kernel_name: str, call_args: Any, *args: Any, **options: Any) -> None:
        if not options.get("triton", True):
            for comment in cpu_launches.comments(self, call_args):
                self.make_comment(comment)  # type: ignore[attr-defined]
        super().generate_kernel_call(kernel_name, call_args, *args, **options)  # type: ignore[misc]

    def _comment_on(self, node: Any) -> None:
        for text in operator_calls.comments(node):
            self.make_comment(f"{self.comment} {text}")  # type: ignore[attr-defined]


class NpuWrapper(CommentedCalls, KernelsOfUsers, NumbersOfTheHost, FilledMemory, NpuAllocation, PythonWrapperCodegen):
    """The wrapper of a graph on `npu`; Inductor generates the CPU kernels of the same graph unchanged."""

    @staticmethod
    def create(
        is_subgraph: bool,
        subgraph_name: str | None,
        parent_wrapper: PythonWrapperCodegen | None,
        partition_signatures: Any = None,
    ) -> PythonWrapperCodegen:
        if is_subgraph:
            assert subgraph_name is not None, "Inductor names every subgraph"
            assert parent_wrapper is not None, "a subgraph is generated inside its parent"
            return NpuSubgraphWrapper(subgraph_name, parent_wrapper, partition_signatures)
        return NpuWrapper()

    def write_header(self) -> None:
        """Writes Inductor's header, then replaces Inductor's pool of compile workers by our compiler, and adds the
        imports of this device.
        """
        super().write_header()
        if inductor_config.triton.cudagraphs and _replaces_storages():
            V.graph.disable_cudagraphs_reason = "an argument gets another storage"
        self.imports.writeline("from inductor_npu.runtime.async_compile import NpuAsyncCompile as AsyncCompile")
        allocate = providers.current_provider().empty_strided
        if allocate is not None:
            module, function = allocate.split(":")
            self.imports.writeline(f"from {module} import {function} as empty_strided_npu")
            if config.fill_memory:
                self.imports.writeline(f"from {module} import fill_as_fresh as fill_as_fresh_npu")
        self.header.writelines(providers.module_lines())
        if attempt.current().leaves_out:
            self.imports.writeline("from inductor_npu.runtime.eager_kernels import compiled_without")
            self.header.writeline(f"compiled_without({attempt.current().leaves_out!r}, {attempt.current().why!r})")

    def generate_return(self, output_refs: list[str]) -> None:
        """Returns copies of what the backward graph may overwrite although another result lies there."""
        copies = donated_results.copied()
        if copies:
            self.imports.writeline(donated_results.IMPORT)
        for index in copies:
            output_refs[index] = f"{donated_results.COPY}({output_refs[index]})"
        super().generate_return(output_refs)

    def generate_after_suffix(self, result: IndentedBuffer) -> None:
        """Writes the end of the module, and the capture of its parts where Inductor asks no backend about it."""
        super().generate_after_suffix(result)
        result.writelines(captures.module_lines())


def _replaces_storages() -> bool:
    """Whether the graph gives an argument another storage (`parameter.data = ...`), which a replay would not do again.
    Torch before 2.14 does not ask.
    """
    return any(getattr(node.target, "overloadpacket", None) is torch.ops.aten.set_ for node in V.graph.graph.nodes)


class NpuSubgraphWrapper(CommentedCalls, NumbersOfTheHost, FilledMemory, NpuAllocation, SubgraphPythonWrapperCodegen):
    """The wrapper of a subgraph: a branch of torch.cond, or the body of a loop."""
