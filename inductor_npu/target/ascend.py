"""Ascend's chips: the facts that Ascend's compiler has for each name that it takes as `--target`.

Source: the target spec that bishengir-compile 1.2.0 prints into a kernel's HIVM module (`#hacc.target_device_spec`:
AI_CORE_COUNT, CUBE_CORE_COUNT, VECTOR_CORE_COUNT, UB_SIZE, ...; sizes there are in bits). A test compares this table
with it. The spec contains neither the size of a chip's memory nor its bandwidth.
"""

from __future__ import annotations

from inductor_npu.target.npu_target import GIB, KIB, NpuTarget

# 910B: Atlas A2. 910_93: Atlas A3, of which each device is one of the package's two dies.
_CUBE_CORES_910 = {
    20: ("Ascend910B3", "Ascend910B4", "Ascend910B4-1", "Ascend910_9362", "Ascend910_9372"),
    24: (
        "Ascend910B1",
        "Ascend910B2",
        "Ascend910B2C",
        "Ascend910_9381",
        "Ascend910_9382",
        "Ascend910_9391",
        "Ascend910_9392",
    ),
}
# The cores of a 950 are those of its digits, in all three ways of writing its name: PR, DT, and the older 910_95.
_CUBE_CORES_950 = {
    4: {"910_": "950z", "950PR_": "950z"},
    8: {"950DT_": "950x 950y"},
    28: {
        "910_": "9579 957b 957d",
        "950PR_": "9579 957a 957b 957c 957d",
        "950DT_": "9571 9572 9573 9574 9575 9576 9577 9578",
    },
    32: {
        "910_": "9581 9589 958a 958b",
        "950PR_": "9589 958a 958b 958c 958d",
        "950DT_": "9581 9582 9583 9584 9585 9586 9587 9588",
    },
    36: {
        "910_": "9599",
        "950PR_": "9599 959a 959b",
        "950DT_": "9591 9592 9595 9596 95A1 95A2",
    },
}
# Memory in bytes and its bandwidth in bytes a second, of the chip that is the default: as published for the Atlas
# 800T A2.
_MEMORY = {"Ascend910B3": (64 * GIB, 1.6e12)}


def _chip(name: str, cube_cores: int, unified_buffer: int, l0c: int) -> NpuTarget:
    memory, bandwidth = _MEMORY.get(name, (None, None))
    return NpuTarget(
        name=name,
        cube_cores=cube_cores,
        vector_cores=2 * cube_cores,
        unified_buffer=unified_buffer,
        l1=512 * KIB,
        l0a=64 * KIB,
        l0b=64 * KIB,
        l0c=l0c,
        memory=memory,
        memory_bandwidth=bandwidth,
    )


ASCEND_CHIPS = (
    *(
        _chip(name, cores, unified_buffer=192 * KIB, l0c=128 * KIB)
        for cores, names in _CUBE_CORES_910.items()
        for name in names
    ),
    *(
        _chip(f"Ascend{series}{digits}", cores, unified_buffer=248 * KIB, l0c=256 * KIB)
        for cores, names in _CUBE_CORES_950.items()
        for series, listed in names.items()
        for digits in listed.split()
    ),
)
