"""PyTorch's operators that run a random operator and keep, or restore, the generator's state: what a checkpoint that
is computed again needs. They know a fixed list of devices; here is what they do for npu.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.utils._mode_utils import no_dispatch


def teach() -> None:
    """Lets run_and_save_rng_state and run_with_rng_state (torch._prims.rng_prims) take operators of device npu."""
    from torch._prims import rng_prims
    from torch.fx.experimental.proxy_tensor import ProxyTorchDispatchMode

    saving = rng_prims.run_and_save_rng_state
    select = _for_npu(_run_and_save, saving.py_kernels[torch._C.DispatchKey.BackendSelect], skipped=0)
    # Those who trace call the function itself, as a variable that they have in common.
    tracer = saving.python_key_table[ProxyTorchDispatchMode]
    shared = dict(zip(tracer.__code__.co_freevars, tracer.__closure__ or ()))
    shared["impl_backend_select"].cell_contents = select
    saving.py_kernels[torch._C.DispatchKey.BackendSelect] = select
    restoring = rng_prims.run_with_rng_state
    restoring.py_kernels[torch._C.DispatchKey.BackendSelect] = _for_npu(
        _run_with, restoring.py_kernels[torch._C.DispatchKey.BackendSelect], skipped=1
    )


def saving_seeds(has_recomputable_rng_ops: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The partitioner's question, asked when the seeds of npu's random numbers are marked to be saved: computed again
    they would be others, and to keep the generator's state for them would be an operator in eager.
    """

    @functools.wraps(has_recomputable_rng_ops)
    def asked_with_seeds_saved(fx_g: Any) -> bool:
        from torch._inductor.inductor_prims import seeds
        from torch.utils.checkpoint import CheckpointPolicy

        for node in fx_g.graph.find_nodes(op="call_function", target=seeds):
            if node.args[1].type == "npu" and node.meta.get("recompute") is not None:
                node.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return has_recomputable_rng_ops(fx_g)

    return asked_with_seeds_saved


def _for_npu(run: Callable[..., Any], others: Callable[..., Any], skipped: int) -> Callable[..., Any]:
    """`run`, with the device first, where the operator after `skipped` arguments is one of an npu, else `others`."""

    def impl_backend_select(*args: Any, **kwargs: Any) -> Any:
        device = _device_of(args[skipped + 1 :], kwargs)
        if device is None or device.type != "npu":
            return others(*args, **kwargs)
        return run(device, *args, **kwargs)

    return impl_backend_select


def _device_of(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.device | None:
    if kwargs.get("device") is not None:
        return torch.device(kwargs["device"])
    return next((value.device for value in args if isinstance(value, torch.Tensor)), None)


def _run_and_save(
    device: torch.device, op: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> tuple[torch.Tensor, Any]:
    # No longer than a state of the CPU's, which AOTAutograd takes for a sample: what comes after it counts numbers that
    # no operator draws. A state is real, also where those who trace run the operator on fake tensors.
    with no_dispatch():
        state = torch.npu.get_rng_state(device)[: torch.get_rng_state().numel()]
    return state, op(*args, **kwargs)


def _run_with(device: torch.device, state: torch.Tensor, op: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    current = torch.npu.get_rng_state(device)
    torch.npu.set_rng_state(torch.cat([state.cpu(), current[state.numel() :]]), device)
    try:
        return op(*args, **kwargs)
    finally:
        torch.npu.set_rng_state(current, device)
