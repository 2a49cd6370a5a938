"""Options of one kernel: which switches bishengir-compile gets for what a launch asks.

A kernel of Ascend's Triton passes fields of `NPUOptions` as keywords of its launch, or in the keywords of a
`triton.Config`. Some change the front end, which reads them itself; those below become switches of bishengir-compile,
as in `triton/backends/ascend/compiler.py` of triton-ascend 3.2.0.
"""

from __future__ import annotations

from collections.abc import Mapping

from inductor_npu.ascend.kernel import Constant
from inductor_npu.ascend.toolchain.families import family_of

_SWITCHES = {
    "multibuffer": "enable-auto-multi-buffer",
    "enable_auto_bind_sub_block": "enable-auto-bind-sub-block",
    "enable_hivm_auto_cv_balance": "enable-hivm-auto-cv-balance",
    "sync_solver": "enable-hivm-graph-sync-solver",
    "unit_flag": "enable-hivm-unit-flag-sync",
    "inject_barrier_all": "enable-hivm-inject-barrier-all-sync",
    "inject_block_all": "enable-hivm-inject-block-all-sync",
    "limit_auto_multi_buffer_only_for_local_buffer": "limit-auto-multi-buffer-only-for-local-buffer",
    "set_workspace_multibuffer": "set-workspace-multibuffer",
    "tile_mix_vector_loop": "tile-mix-vector-loop",
    "tile_mix_cube_loop": "tile-mix-cube-loop",
    "limit_auto_multi_buffer_of_local_buffer": "limit-auto-multi-buffer-of-local-buffer",
    "disable_auto_inject_block_sync": "disable-auto-inject-block-sync",
}


def switches(target: str, options: Mapping[str, Constant]) -> list[str]:
    """The switches of `target`'s family; a kernel's own take the place of those of the same name.

    Raises ValueError for a chip of no family.
    """
    own = {f"--{_SWITCHES[name]}": value for name, value in options.items() if name in _SWITCHES and value is not None}
    kept = [flag for flag in family_of(target).flags if flag.partition("=")[0] not in own]
    return [*kept, *(f"{switch}={value}" for switch, value in own.items())]
