"""What Inductor asks about captured graphs, for `npu`: its CUDAGraphPolicy (torch/_inductor/cudagraph_utils.py), from
torch 2.12 on.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._inductor.cudagraph_utils import CUDAGraphPolicy

from inductor_npu import providers
from inductor_npu.runtime.graph_capture.captured_function import CapturedFunction
from inductor_npu.runtime.graph_capture.statistics import statistics_of

_graphs = itertools.count()


class NpuGraphPolicy(CUDAGraphPolicy):
    """Captures compiled graphs of `npu`, and leaves those of other devices to Inductor."""

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
        if any(isinstance(value, torch.Tensor) and value.device.type not in ("npu", "cpu") for value in example_inputs):
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
        writes = bool(facts.get("mutated_input_idxs"))
        runner: Any = getattr(model, "__self__", None)
        if parts := getattr(runner, "partitions", None):
            names = [name] if len(parts) == 1 else [f"{name}.{index}" for index in range(len(parts))]
            runner.partitions = [
                CapturedFunction(part, None, statistics=statistics_of(each), writes=writes)
                for each, part in zip(names, parts, strict=True)
            ]
            return model
        numbers = [index for index, value in enumerate(example_inputs) if not isinstance(value, torch.Tensor)]
        return CapturedFunction(model, numbers, statistics=statistics_of(name), writes=writes)
