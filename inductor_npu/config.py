"""Knobs of the Inductor backend: typed, few, each with the reason it exists.

Every value here is part of Inductor's cache key (this module is registered as the device's custom config), so that a
changed knob, version or target never meets a graph compiled under another one. In a test: `with
inductor_npu.config.patch(strict=False): ...`.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch.utils._config_module import Config, install_config_module

from inductor_npu import providers


def _source_hash() -> str:
    """Hash of the sources that decide what code is generated: another version of them must not find this one's
    graphs.
    """
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for folder in ("codegen", "device_interface", "lowering", "target", "tiling"):
        for path in sorted((package / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@functools.cache
def _triton_version() -> str:
    """The Triton that is installed, under any of the names it is distributed by; "" without one. Does not import it."""
    for distribution in ("triton-ascend", "triton", "pytorch-triton"):
        try:
            return f"{distribution} {importlib.metadata.version(distribution)}"
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


# Turns every "could not compile this kernel, its operators run in eager" into an error. Off for users, whose graph
# should run; on in our tests, where eager code would hide a missing feature.
strict: bool = Config(default=False, env_name_force="INDUCTOR_NPU_STRICT")

# Elements in the tile of a pointwise kernel. Large, because a program is a whole loop on one core: few long programs
# beat many short ones. A kernel that holds many values alive gets a smaller tile by itself (see tiling/footprint.py).
pointwise_tile: int = 4096

# Elements in the tile of a reduction: rows per program times (a part of) the row.
reduction_tile: int = 8192

# Longest row that a reduction keeps in the Unified Buffer at once; longer ones are read in a loop.
persistent_row: int = 4096

# Identity of everything outside the graph that decides what code comes out. Not for setting: it is here to be part of
# the cache key.
identity: str = f"{_source_hash()} {_triton_version()} {providers.current_target()}"

if TYPE_CHECKING:

    def patch(**changes: Any) -> Any: ...


install_config_module(sys.modules[__name__])
