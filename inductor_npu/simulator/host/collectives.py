"""Collectives of the embedded NPU: gloo moves and reduces the memory of npu, which is the host's (csrc/collectives)."""

from __future__ import annotations

from datetime import timedelta

import torch.distributed as dist

from inductor_npu.simulator.host.rendezvous import fresh_store


def make_gloo(store: dist.Store, rank: int, size: int, timeout: timedelta) -> dist.Backend:
    """Gloo's backend for these ranks. Raises what gloo raises where they do not find each other within `timeout`."""
    fresh = fresh_store(store, rank, size, timeout)
    return dist.ProcessGroupGloo(dist.PrefixStore("gloo/", fresh), rank, size, timeout=timeout)
