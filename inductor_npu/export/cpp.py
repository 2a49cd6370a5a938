"""What C++ programs that run packages are built with."""

from __future__ import annotations

from pathlib import Path

import torch

from inductor_npu import providers
from inductor_npu.device import build
from inductor_npu.errors import NoCppProgramsError


def cmake_arguments() -> list[str]:
    """Arguments for cmake with which find_package finds Torch and InductorNpu; the runtime is built first if need be.

    Raises NoCppProgramsError where torch_npu provides the device; NoCompilerError, DeviceBuildError or
    CacheDirectoryError if it must be built and cannot be.
    """
    if (provider := providers.current_provider()) is not providers.SIMULATOR:
        raise NoCppProgramsError(provider=provider.name)
    folders = [torch.utils.cmake_prefix_path, str(Path(__file__).parent / "cmake")]
    return [
        f"-DCMAKE_PREFIX_PATH={';'.join(folders)}",
        f"-DInductorNpu_RUNTIME={build.runtime_library()}",
        f"-DInductorNpu_INCLUDE={build.include_directory()}",
    ]
