"""What Inductor asks about captured graphs, for `npu`: its CUDAGraphPolicy (torch/_inductor/cudagraph_utils.py), from
torch 2.12 on.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.cudagraph_utils import CUDAGraphPolicy, log_cudagraph_skip_and_bump_counter

from inductor_npu import providers
from inductor_npu.runtime.graph_capture.captured_function import CapturedFunction
from inductor_npu.runtime.graph_capture.parts import capture_parts, name_of_graph, written_by_parts
from inductor_npu.runtime.graph_capture.statistics import statistics_of

_CAPTURED = ("npu", "cpu", "meta")  # devices of arguments; Inductor cuts graphs around operators of the CPU


class _Asked(threading.local):
    """What Inductor showed last, between its two questions about one graph."""

    partition_maps: Sequence[Any] | None = None


_asked = _Asked()


class NpuGraphPolicy(CUDAGraphPolicy):
    """Captures compiled graphs of `npu`, and leaves those of other devices to Inductor."""

    def should_wrap(self, compiled_graph: Any) -> bool:
        """Whether anything of the graph is to be captured. Of a graph that is not, Inductor must hear it here: it would
        look for a tree of CUDA's graphs, where the backward pass of a captured forward pass is not captured itself.
        """
        _asked.partition_maps = compiled_graph.partition_maps
        if "npu" not in compiled_graph.device_types:
            return super().should_wrap(compiled_graph)
        facts = compiled_graph.cudagraph_info
        if facts is not None and facts.cudagraph_fail_reasons:
            reasons = ", ".join(facts.cudagraph_fail_reasons)
            log_cudagraph_skip_and_bump_counter(f"skipping captured graphs of npu: {reasons}")
            return False
        return bool(compiled_graph.partition_maps) or not inductor_config.graph_partition

    def cudagraphify(
        self,
        model: Callable[..., Any],
        example_inputs: Sequence[Any],
        static_input_idxs: Sequence[int],
        *,
        device_index: int,
        is_backward: bool,
        is_inference: bool,
        **facts: Any,
    ) -> Callable[..., Any]:
        """`model`, or where Inductor has cut it around operators that cannot be captured, its parts, captured."""
        if any(isinstance(value, torch.Tensor) and value.device.type not in _CAPTURED for value in example_inputs):
            return super().cudagraphify(
                model,
                example_inputs,
                static_input_idxs,
                device_index=device_index,
                is_backward=is_backward,
                is_inference=is_inference,
                **facts,
            )
        if providers.current_provider().captured_calls is None:
            return model
        name = name_of_graph(is_backward=is_backward, is_inference=is_inference)
        written = frozenset(facts.get("mutated_input_idxs", ()))
        runner: Any = getattr(model, "__self__", None)
        if getattr(runner, "partitions", None):
            capture_parts(runner, name, written_by_parts(_asked.partition_maps, written))
            return model
        numbers = [index for index, value in enumerate(example_inputs) if not isinstance(value, torch.Tensor)]
        return CapturedFunction(model, numbers, statistics=statistics_of(name), written=written)
