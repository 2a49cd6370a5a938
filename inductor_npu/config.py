"""Knobs of the Inductor backend: typed, few, each with the reason it exists.

Every value here is part of Inductor's cache key (this module is registered as the device's custom config), so that a
changed knob, version or target never meets a graph compiled under another one. A test changes one with
`with inductor_npu.config.patch(strict=False): ...`.
"""

import sys
import typing

from torch.utils._config_module import Config, install_config_module

from inductor_npu import identity

# Turns every "could not compile this kernel, its operators run in eager" into an error. Off for users, whose graph
# should run; on in our tests, where eager code would hide a missing feature.
strict: bool = Config(default=False, env_name_default="INDUCTOR_NPU_STRICT")

# Elements in the tile of a pointwise kernel. Large, because a program is a whole loop on one core: few long programs
# beat many short ones. A kernel that holds many values alive gets a smaller tile by itself (see tiling/plan.py).
pointwise_tile: int = 4096

# Elements in the tile of a reduction: rows per program times (a part of) the row.
reduction_tile: int = 8192

# Whether the allocator fills what it hands out (docs/memory.md). Here because generated code then fills memory that it
# uses again, too. Read from the environment when the device is loaded, too: set the variable, not this.
fill_memory: bool = Config(default=False, env_name_default="INDUCTOR_NPU_FILL_MEMORY")

# How max-autotune compares tiles: "time" on the device where there is one, else by the cost model; "model" always by
# the cost model, which is what code for another machine wants: an embedded NPU's times are those of its host.
tune_by: str = Config(default="time", env_name_default="INDUCTOR_NPU_TUNE_BY")

# Which rewrites of a graph run (docs/graph-passes.md): all; none; or their names, with commas between them. They run in
# their own order. What a graph does not compile without runs in any case.
graph_passes: str = Config(default="all", env_name_default="INDUCTOR_NPU_GRAPH_PASSES")

# Which matrix products are kernels of ours, and which call the library (docs/cube.md): auto, where a kernel is faster,
# by the cost model or on the embedded NPU by measured times; all; or none.
templates: str = Config(default="auto", env_name_default="INDUCTOR_NPU_TEMPLATES")

# Accuracy mode (docs/accuracy-mode.md): each kernel runs beside its operators in eager, and the first that differs is
# an error. Slow; for finding which kernel is wrong.
accuracy: bool = Config(default=False, env_name_default="INDUCTOR_NPU_ACCURACY")

# Whether compiled kernels are kept and found again (docs/cache.md): on; off; or must-hit, where compiling anything at
# all is an error that says why. Decides no code, so it is left out of the key.
cache: str = Config(default="on", env_name_default="INDUCTOR_NPU_CACHE")

# mode="reduce-overhead" (docs/graphs.md): how many combinations of sizes of a graph are captured, each with memory of
# its own, and how often one is captured again because arguments that stayed where they were have moved. Beyond, the
# graph is launched kernel by kernel. Decide no code.
capture_sizes: int = 64
capture_moves: int = 8
_cache_config_ignore_prefix = ["cache", "capture_"]

# Everything outside the graph that decides what code comes out. Not for setting: it is here for the cache key.
toolchain: str = identity.toolchain_identity()

if typing.TYPE_CHECKING:

    def patch(**changes: typing.Any) -> typing.Any:
        """Changes knobs for the duration of a `with` block or a decorated function."""

    def save_config_portable(*, ignore_private_configs: bool = True) -> dict[str, typing.Any]:
        """Every knob that is part of Inductor's cache key, by name."""


install_config_module(sys.modules[__name__])
