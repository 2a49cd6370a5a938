"""`Runtime`: what the device npu is built of for one kind of hardware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any


@dataclass(frozen=True)
class Runtime:
    """A kind of hardware that can be device npu.

    name: what it is called in messages, such as "the embedded NPU's device".
    sources: folders of C++ sources beside those of this room: a driver (csrc/driver.h), a library of eager operators
        (csrc/library.h), and what more the runtime has. What lies in a folder `python` there is part of the module _C.
    settings: the arguments of `_C.configure`. Raises what it finds wrong in the environment.
    includes: `() -> Sequence[Path]`, further folders of others' headers. Raises NpuError if they are not there.
    libraries, link_flags: further libraries of torch, and options, that the runtime is linked with.
    collectives: "module:function", which makes the backend of torch.distributed that class Collectives of `_C` is over:
        `(store, rank, size, timeout) -> Backend`. None where the runtime has no such class.
    loaded: called with `_C` before it is configured. Raises what it finds wrong in the environment.
    """

    name: str
    sources: tuple[Path, ...]
    settings: Callable[[], dict[str, Any]]
    includes: Callable[[], Sequence[Path]] = field(default=lambda: ())
    libraries: tuple[str, ...] = ()
    link_flags: Callable[[], Sequence[str]] = field(default=lambda: ())
    collectives: str | None = None
    loaded: Callable[[ModuleType], None] = field(default=lambda module: None)
