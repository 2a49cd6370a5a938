"""npu tensors in `torch.multiprocessing`: queues, pipes, arguments of processes.

PyTorch takes a tensor, a parameter or a sparse tensor apart into storages and facts, and refuses what cannot be sent.
What remains to be said is how a storage of npu travels: as the file descriptor of its memory, as those of CPU tensors
do. The operating system counts who has it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from multiprocessing import reduction
from typing import Any

import torch
from torch.multiprocessing import reductions

from inductor_npu.device.npu.runtime import extension


def register() -> None:
    """Has the picklers of `multiprocessing` send npu storages by their memory, others as before."""
    reduction.ForkingPickler.register(torch.UntypedStorage, _reduce_storage)


def _reduce_storage(storage: torch.UntypedStorage) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    if storage.device.type != "npu":
        return reductions.reduce_storage(storage)
    if storage.nbytes() == 0:
        return _rebuild_empty, (storage.device.index,)
    descriptor = extension().share_storage(storage)
    reductions.shared_cache[reductions.fd_id(descriptor)] = reductions.StorageWeakRef(storage)
    return _rebuild_storage, (reduction.DupFd(descriptor), storage.nbytes(), storage.device.index)


def _rebuild_storage(duplicate: Any, size: int, device: int) -> torch.UntypedStorage:
    """The storage that this process has of that memory already, else a new one."""
    descriptor = duplicate.detach()
    try:
        key = reductions.fd_id(descriptor)
        storage = reductions.storage_from_cache(torch.UntypedStorage, key)
        if storage is None:
            storage = extension().map_storage(descriptor, size, device)
            reductions.shared_cache[key] = reductions.StorageWeakRef(storage)
        return storage
    finally:
        os.close(descriptor)


def _rebuild_empty(device: int) -> torch.UntypedStorage:
    return torch.UntypedStorage(0, device=torch.device("npu", device))
