"""CudaNpuBackend: Triton's compiler for target `npu` where the device is a GPU of NVIDIA."""

from __future__ import annotations

import functools
import hashlib
import math
import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from triton.backends.compiler import GPUTarget, Language
from triton.backends.nvidia.compiler import CUDABackend, CUDAOptions

from ...target import NpuTarget, get_target
from ...triton_npu.ascend_options import AscendOptions
from .image import packed

BACKEND = "npu"
WARP_SIZE = 32
CAPABILITY = 90  # of all GPUs in inductor_npu/target/gpu.py; Triton compiles for sm_90a
# Below it, Triton's backend has tensor descriptors become plain pointers with masks.
_WITHOUT_DESCRIPTORS = 89

_TENSOR = re.compile(r"tensor<((?:\d+x)+)")


@dataclass(frozen=True)
class CudaNpuOptions(AscendOptions, CUDAOptions):
    """Options of one compilation: those of Triton's backend for NVIDIA, and those that kernels for an NPU pass, which
    change nothing here.

    `warps_by_tile`: the launch named no `num_warps`; they follow from the largest tile (`warps_of`).
    """

    warps_by_tile: bool = False
    distinct_arguments: bool = False
    exclusive: bool = False
    opt_level: int = 1


class CudaNpuBackend(CUDABackend):
    """Compiles by Triton's backend for NVIDIA. `target.arch` is the name of an NpuTarget, such as H100.

    Tensor descriptors are plain pointers here: a program of a fixed grid reads its tiles by its own addresses, and the
    runtime makes no descriptors of the Tensor Memory Accelerator.
    """

    def __init__(self, target: GPUTarget) -> None:
        super().__init__(target)
        self.target = GPUTarget("cuda", CAPABILITY, WARP_SIZE)  # what every stage asks
        self._npu: NpuTarget = get_target(str(target.arch))

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return target.backend == BACKEND

    def hash(self) -> str:
        """A digest of this backend's source, ptxas and the target's facts."""
        return f"{super().hash()}-{_identity(self._npu)}"

    def parse_options(self, opts: dict[str, Any]) -> CudaNpuOptions:
        """The options that exist here out of `opts`; Triton itself reports unknown ones. Without `num_warps` the tile
        decides, if the target's facts say how.
        """
        stock = super().parse_options(opts)
        ours = {field.name for field in fields(CudaNpuOptions)} - {field.name for field in fields(CUDAOptions)}
        given = {name: value for name, value in opts.items() if name in ours and value is not None}
        given["warps_by_tile"] = opts.get("num_warps") is None and bool(self._npu.threads_by_tile)
        return CudaNpuOptions(**{field.name: getattr(stock, field.name) for field in fields(stock)}, **given)

    def get_module_map(self) -> dict[str, ModuleType]:
        from . import device_functions

        return {**super().get_module_map(), "inductor_npu.runtime.device_functions": device_functions}

    def add_stages(self, stages: dict[str, Any], options: Any, language: Any) -> None:
        """NVIDIA's stages, with plain pointers for descriptors, warps for the tile where `options` leave them, and the
        threads behind the code.
        """
        super().add_stages(stages, options, language)
        assemble = stages["cubin"]
        # From `metadata`, for NVIDIA's stages may add warps.
        stages["cubin"] = lambda ptx, metadata: packed(assemble(ptx, metadata), WARP_SIZE * metadata["num_warps"])
        if language != Language.TRITON:
            return
        stages["ttir"] = lambda mod, metadata: self.make_ttir(mod, metadata, options, _WITHOUT_DESCRIPTORS)

        def ttgir(mod: Any, metadata: dict[str, Any]) -> Any:
            chosen = options
            if options.warps_by_tile:
                chosen = replace(options, num_warps=warps_of(largest_tile(str(mod)), self._npu))
                metadata["num_warps"] = chosen.num_warps
            return self.make_ttgir(mod, metadata, chosen, CAPABILITY)

        stages["ttgir"] = ttgir


def largest_tile(ttir: str) -> int:
    """Elements of the largest tensor in the text of a module; 1 where all is scalar."""
    shapes = {match.rstrip("x") for match in _TENSOR.findall(ttir)}
    return max((math.prod(map(int, shape.split("x"))) for shape in shapes), default=1)


def warps_of(elements: int, target: NpuTarget) -> int:
    """Warps of a program whose largest tile has so many elements, by `NpuTarget.threads_by_tile`, which must not be
    empty.
    """
    threads = target.threads_of(elements)
    assert threads is not None, f"{target.name} says nothing of threads"
    return max(1, threads // WARP_SIZE)


def _sources() -> bytes:
    return b"".join(path.read_bytes() for path in sorted(Path(__file__).parent.glob("*.py")))


@functools.cache
def _identity(target: NpuTarget) -> str:
    return hashlib.sha256(repr(target).encode() + _sources()).hexdigest()
