"""The backend of torch.distributed for device npu: gloo moves and reduces the memory of npu, which is the host's.

It has the name of Ascend's, "hccl", because programs for Ascend ask for it by name. `init_process_group()` without a name
finds it, too; `"cpu:gloo,npu:hccl"` makes a group for tensors of both devices. csrc/collectives has the rest.
"""

from __future__ import annotations

import torch
from torch.distributed import distributed_c10d as c10d

from inductor_npu.simulator.device import build

NAME = "hccl"


def register() -> None:
    """Tells torch.distributed of the backend. Imports nothing and loads nothing; does nothing where torch was built
    without torch.distributed.
    """
    if not torch.distributed.is_available() or NAME.upper() in torch.distributed.Backend._plugins:
        return
    torch.distributed.Backend.register_backend(NAME, _create, extended_api=True, devices=["npu"])
    # Process groups that only count collectives, without other ranks, for tests and dry runs.
    torch.distributed.Backend.backend_capability[torch.distributed.Backend.FAKE].append("npu")


def _create(options: c10d._DistributedBackendOptions, _: object) -> torch.distributed.Backend:
    """The backend of a group, on each of its ranks. Raises what gloo raises where ranks do not find each other within
    the group's time-out.
    """
    store, rank, size = options.store, options.group_rank, options.group_size
    gloo: object = torch.distributed.ProcessGroupGloo(
        torch.distributed.PrefixStore("gloo/", store), rank, size, timeout=options.timeout
    )
    gloo.options.global_ranks_in_group = options.global_ranks_in_group
    gloo.options.group_name = options.group_id
    if torch.distributed.get_debug_level() == torch.distributed.DebugLevel.DETAIL:
        gloo = c10d._create_process_group_wrapper(
            wrapped_pg=gloo, store_prefix=options.group_id, store=store, rank=rank, world_size=size, timeout=options.timeout
        )
    return build.load().collectives_over(gloo, options.group_id, options.timeout)
