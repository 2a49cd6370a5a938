"""The backend of torch.distributed for device npu, over the one that its runtime names (`Runtime.collectives`).

It has the name of Ascend's, "hccl", by which programs for Ascend ask for it. `init_process_group()` without a name
finds it, too; `"cpu:gloo,npu:hccl"` makes a group for tensors of both devices. csrc/collectives of each runtime has the
rest.
"""

from __future__ import annotations

import pkgutil
import sys

import torch
from torch.distributed import distributed_c10d as c10d

from inductor_npu.device import build
from inductor_npu.errors import NoCollectivesError
from inductor_npu.providers import current_provider, device_runtime
from inductor_npu.support.import_hooks import after_import

NAME = "hccl"


def register() -> None:
    """Tells torch.distributed of the backend. Imports nothing and loads nothing; does nothing where torch was built
    without torch.distributed.
    """
    if not torch.distributed.is_available() or NAME.upper() in torch.distributed.Backend._plugins:
        return
    torch.distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=["npu"])
    after_import("torch.distributed.algorithms.ddp_comm_hooks.default_hooks", _serve_bf16)
    # Process groups that only count collectives, without other ranks, for tests and dry runs.
    torch.distributed.Backend.backend_capability[torch.distributed.Backend.FAKE].append("npu")


def _serve_bf16() -> None:
    """DistributedDataParallel takes the hook that sends gradients as bfloat16 with NCCL and XCCL only. It knows that
    hook by its name.
    """
    default_hooks = sys.modules["torch.distributed.algorithms.ddp_comm_hooks.default_hooks"]
    default_hooks.bf16_compress_hook.__name__ = f"{NAME}_bf16_compress_hook"


def _create(options: c10d._DistributedBackendOptions, _: object) -> torch.distributed.Backend:
    """The backend of a group, on each of its ranks. Raises NoCollectivesError, and what making the runtime's raises."""
    make = device_runtime().collectives
    if make is None:
        raise NoCollectivesError(reason=f"the runtime of provider {current_provider().name} has none")
    return build.load().Collectives(
        make=pkgutil.resolve_name(make),
        store=options.store,
        rank=options.group_rank,
        size=options.group_size,
        name=options.group_id,
        timeout=options.timeout,
    )
