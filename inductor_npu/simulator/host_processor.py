"""What a package's kernels need of a processor: they are compiled for the one of the machine that makes the package."""

from __future__ import annotations

import platform
from pathlib import Path

# Instruction sets that the code generator may use, by Linux's names in /proc/cpuinfo. What is not listed is either in
# every processor of its kind or not for computing.
_USED = {
    "x86_64": (
        "pni ssse3 sse4_1 sse4_2 popcnt movbe avx avx2 fma f16c bmi1 bmi2 abm adx gfni vaes vpclmulqdq avx_vnni "
        "avx_ifma avx_ne_convert avx_vnni_int8 avx512f avx512bw avx512cd avx512dq avx512vl avx512ifma avx512vbmi "
        "avx512_vbmi2 avx512_vnni avx512_bitalg avx512_vpopcntdq avx512_bf16 avx512_fp16 avx512_vp2intersect"
    ),
    "aarch64": (
        "fp asimd fphp asimdhp asimdrdm asimddp asimdfhm fcma jscvt lrcpc dcpop sve sve2 bf16 i8mm frint svebf16 "
        "svei8mm"
    ),
}


def facts() -> dict[str, object]:
    """The kind of this machine's processor, and those of its instruction sets that kernels may use."""
    architecture = platform.machine()
    used = _USED.get(architecture, "").split()
    return {"architecture": architecture, "features": sorted(set(used) & _features())}


def _features() -> set[str]:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return set(value.split())
    return set()
