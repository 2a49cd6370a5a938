"""The arguments of a launch as plain data, and the bytes behind them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from inductor_npu.ascend.kernel import KernelSource, TensorArgument
from inductor_npu.errors import UncollectableKernelError

DATA_FOLDER = "data"

Described = dict[str, TensorArgument | int | float]


def describe(kernel: KernelSource, arguments: dict[str, Any]) -> Described:
    """Each run-time argument of a launch of `kernel`; storages are numbered in the order of the arguments.

    Raises UncollectableKernelError for a pointer that is no tensor's.
    """
    numbers: dict[int, int] = {}
    described: Described = {}
    for name in kernel.signature:
        value = arguments[name]
        if isinstance(value, int | float):
            described[name] = value
        elif hasattr(value, "untyped_storage"):
            storage = value.untyped_storage()
            number = numbers.setdefault(storage._cdata, len(numbers))
            described[name] = TensorArgument(
                str(value.dtype).removeprefix("torch."),
                tuple(value.shape),
                value.stride(),
                value.storage_offset(),
                number,
                storage.nbytes(),
            )
        else:
            reason = f"its argument {name!r} is a {type(value).__name__}, not a tensor or a number"
            raise UncollectableKernelError(kernel=kernel.name, reason=reason)
    return described


def keep_data(
    folder: Path, key: str, limit: int, described: Described, arguments: dict[str, Any], launch: Callable[[], None]
) -> str | None:
    """Launches, and writes the bytes of each storage before and after it to `data/<key>.npz`.

    Returns the file's path relative to `folder`; None if the storages hold more than `limit` bytes. Waits for all work
    on the device, before and after.
    """
    tensors = {kind.storage: arguments[name] for name, kind in described.items() if isinstance(kind, TensorArgument)}
    sizes = {kind.storage: kind.storage_bytes for kind in described.values() if isinstance(kind, TensorArgument)}
    if sum(sizes.values()) > limit:
        launch()
        return None
    import numpy

    before = {f"before_{number}": _bytes(tensor) for number, tensor in tensors.items()}
    launch()
    after = {f"after_{number}": _bytes(tensor) for number, tensor in tensors.items()}
    path = folder / DATA_FOLDER / f"{key}.npz"
    path.parent.mkdir(exist_ok=True)
    with path.open("wb") as file:
        numpy.savez(file, **before, **after)
    return path.relative_to(folder).as_posix()


def _bytes(tensor: Any) -> Any:
    """A copy of the whole storage of a tensor on `npu`, after all queued work."""
    import torch

    torch.npu.synchronize()
    storage = tensor.untyped_storage()
    whole = torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))
    return whole.cpu().numpy()
