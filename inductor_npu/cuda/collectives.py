"""Collectives of GPUs: NCCL's, on the memory of npu and in order with its streams (csrc/collectives)."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from inductor_npu.errors import NoCollectivesError


def make_nccl(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.Backend:
    """NCCL's backend for these ranks. Raises NoCollectivesError where this torch has none, and as NCCL's."""
    if not dist.is_nccl_available():
        raise NoCollectivesError(reason="this torch is built without NCCL")
    options = dist.ProcessGroupNCCL.Options()
    options._timeout = timeout
    return dist.ProcessGroupNCCL(dist.PrefixStore("nccl/", store), rank, size, options)
