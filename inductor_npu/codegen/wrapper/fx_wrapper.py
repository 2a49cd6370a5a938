"""The wrapper of a graph that is packaged: a graph of torch.fx around the kernels, in place of a Python module."""

from __future__ import annotations

from typing import Any

import sympy
import torch
from sympy.logic.boolalg import BooleanAtom
from torch._inductor.codegen.common import FileBackedGraphModule
from torch._inductor.codegen.wrapper_fxir import FxConverter, WrapperFxCodegen

from inductor_npu.codegen.wrapper.user_kernels import KernelsOfUsers
from inductor_npu.errors import NoCppWrapperError

KERNELS = "npu_kernels"  # in a graph's `meta`: the kernels that it launches, by the index in the node of the launch


def _is_constant(value: Any) -> bool:
    """Whether an input of a graph is a number that does not vary."""
    return isinstance(value, (bool, int, float, str, BooleanAtom, sympy.Number))


class _Converter(FxConverter):
    """Keeps the compiled kernels with the graph, where Inductor keeps their source alone."""

    def generate(self) -> torch.fx.GraphModule:
        graph_module = super().generate()
        graph_module.meta[KERNELS] = {kernel.wrapped.kernel_idx: kernel.tuner for kernel in self.kernels.values()}
        return graph_module

    def _generate_unbacked_symbol_defs(self, line: Any) -> None:
        """As Inductor's, which looks for the result of an operator also where it has none, and defines no size."""
        if line.unbacked_bindings:
            super()._generate_unbacked_symbol_defs(line)


class NpuFxWrapper(KernelsOfUsers, WrapperFxCodegen):
    """WrapperFxCodegen with our kernels."""

    def write_header(self) -> None:
        """Has the kernels compiled by our compiler."""
        super().write_header()
        self.imports.writeline("from inductor_npu.runtime.async_compile import NpuAsyncCompile as AsyncCompile")

    def get_fx_graph_inputs(self) -> dict[str, Any]:
        """The graph's inputs by name; None for constants, which are known and which the converter cannot take."""
        inputs = super().get_fx_graph_inputs()
        return {name: None if _is_constant(value) else value for name, value in inputs.items()}

    def _generate(self, is_inference: bool) -> tuple[FileBackedGraphModule, None]:
        self.run_wrapper_ir_passes(is_inference)
        graph_module = _Converter(
            lines=self.lines,
            prologue=f"{self.imports.getvalue()}\n{self.header.getvalue()}",
            graph_inputs=self.get_fx_graph_inputs(),
            graph_outputs=self.get_graph_outputs(),
            subgms=self.subgms,
            is_subgraph=self.is_subgraph,
        ).generate()
        return FileBackedGraphModule(graph_module, self.compile_graph(graph_module)), None


class NoCppWrapper:
    """What is registered as the wrapper in C++, which torch's own ahead-of-time compiler (AOTInductor) needs."""

    supports_caching = False

    @staticmethod
    def create(*_: Any, **__: Any) -> Any:
        """Raises NoCppWrapperError."""
        raise NoCppWrapperError
