"""A collected kernel: all that another Python, with another Triton, needs to compile it, run it and name its origin.

Everything here is plain data with a JSON form, because collecting and compiling happen in different processes: a
program runs in the user's environment, its kernels are compiled in Ascend's.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

Constant = bool | int | float | str | None


@dataclass(frozen=True)
class KernelSource:
    """A Triton kernel as text.

    `text` is a Python module on its own: imports, the helper functions that the kernel calls, the `@triton.jit`
    function called `name`. `signature` gives each run-time argument, in the kernel's order, its Triton type (`*fp32`,
    `i32`); `constants` each `tl.constexpr` argument, and each argument specialised on a value, that value (a
    `tl.dtype` as its name, "tl.float32"); `divisible` the arguments that are known multiples of 16; `options` what its
    launch asks of Ascend's compiler (fields of triton-ascend's `NPUOptions`).
    """

    name: str
    text: str
    signature: dict[str, str]
    constants: dict[str, Constant]
    divisible: tuple[str, ...] = ()
    options: dict[str, Constant] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Hash of all that decides the compiled kernel, the compiler itself excepted."""
        data = asdict(self)
        if not self.options:  # so that a kernel without options has the key that it had before there were any
            del data["options"]
        return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Origin:
    """Where a kernel is from: ATen operators (`aten.gelu`), the user's source lines (`model.py:12: y = F.gelu(x)`)."""

    operators: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()


@dataclass(frozen=True)
class TensorArgument:
    """A pointer argument of one launch. `offset` is in elements from the start of its storage of `storage_bytes`
    bytes; arguments that share a storage have the same `storage` number.
    """

    dtype: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    storage: int
    storage_bytes: int


@dataclass(frozen=True)
class Launch:
    """The first launch of a kernel: its grid, and each run-time argument (a number is a scalar argument's value).

    `data`, relative to the collection's folder, is an .npz with the bytes of each storage before (`before_N`) and
    after (`after_N`) the launch on the embedded NPU; None where data was not asked for or was too large.
    """

    grid: tuple[int, int, int]
    arguments: dict[str, TensorArgument | int | float]
    data: str | None = None


@dataclass(frozen=True)
class CollectedKernel:
    """A distinct kernel of a program, its first launch and how often it was launched."""

    source: KernelSource
    origin: Origin
    launch: Launch
    launches: int = 1

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> CollectedKernel:
        source, origin, launch = data["source"], data["origin"], data["launch"]
        arguments = {
            name: TensorArgument(**{**value, "shape": tuple(value["shape"]), "strides": tuple(value["strides"])})
            if isinstance(value, dict)
            else value
            for name, value in launch["arguments"].items()
        }
        return cls(
            KernelSource(**{**source, "divisible": tuple(source["divisible"])}),
            Origin(tuple(origin["operators"]), tuple(origin["lines"])),
            Launch(tuple(launch["grid"]), arguments, launch["data"]),
            data["launches"],
        )


def save(kernels: list[CollectedKernel], folder: Path) -> None:
    """Writes `kernels.json` into `folder`."""
    (folder / "kernels.json").write_text(json.dumps([kernel.to_json() for kernel in kernels], indent=1))


def load(folder: Path) -> list[CollectedKernel]:
    """The kernels of a folder that `save` wrote. Raises FileNotFoundError."""
    return [CollectedKernel.from_json(entry) for entry in json.loads((folder / "kernels.json").read_text())]
