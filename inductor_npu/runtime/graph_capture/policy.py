"""What Inductor asks about captured graphs, for `npu`: its CUDAGraphPolicy (torch/_inductor/cudagraph_utils.py), from
torch 2.12 on.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch._inductor import config as inductor_config
from torch._inductor.cudagraph_utils import CUDAGraphPolicy, log_cudagraph_skip_and_bump_counter

from inductor_npu import providers
from inductor_npu.runtime.graph_capture.captured_function import CapturedFunction
from inductor_npu.runtime.graph_capture.statistics import statistics_of

_graphs = itertools.count()
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
        name = f"{'backward' if is_backward else 'inference' if is_inference else 'forward'} {next(_graphs)}"
        written = frozenset(facts.get("mutated_input_idxs", ()))
        runner: Any = getattr(model, "__self__", None)
        if parts := getattr(runner, "partitions", None):
            names = [name] if len(parts) == 1 else [f"{name}.{index}" for index in range(len(parts))]
            maps = _asked.partition_maps or ()
            writes: list[Collection[int] | None] = [
                _written_by_part(each.input_index_mapping, written) for each in maps
            ]
            if len(writes) != len(parts):
                writes = [None] * len(parts)  # not known: any
            runner.partitions = [
                CapturedFunction(part, None, statistics=statistics_of(each), written=some)
                for each, part, some in zip(names, parts, writes, strict=True)
            ]
            return model
        numbers = [index for index, value in enumerate(example_inputs) if not isinstance(value, torch.Tensor)]
        return CapturedFunction(model, numbers, statistics=statistics_of(name), written=written)


def _written_by_part(arguments: Sequence[int | None], written: Collection[int]) -> frozenset[int]:
    """Which arguments a part may write. `arguments`: their indices among the graph's, of which it writes `written`;
    None: a result of what ran before, whose memory the part may use again for its own results.
    """
    return frozenset(index for index, outer in enumerate(arguments) if outer is None or outer in written)
