"""NVIDIA's GPUs as fixed grids of programs, in the words of `NpuTarget`.

A vector core is the room of one program: a multiprocessor holds four, and all of them are there at once, as on a chip
with cores. Each has a quarter of what the multiprocessor has. Sources: NVIDIA's H100 and H200 data sheets (memory,
bandwidth), the CUDA C++ Programming Guide, "Compute Capabilities", 9.0 (registers, shared memory, the grid's limit),
and the white paper on the Hopper architecture (multiprocessors, L2).
"""

from __future__ import annotations

from inductor_npu.target.npu_target import GIB, KIB, MIB, NpuTarget

_MULTIPROCESSORS = 132
# Four programs of 8 warps are half of the 64 warps that a multiprocessor keeps, and leave each thread 64 registers.
_PROGRAMS = 4


def _hopper(name: str, memory: int, bandwidth: float) -> NpuTarget:
    """A GPU of compute capability 9.0.

    `unified_buffer` is what the planner counts: each access of a tile twice and what is alive once. A program has 64
    KiB of registers and up to 57 KiB of shared memory, and no access takes room twice: one value of the tile is in
    registers while it is read, not in a second buffer. Tiles planned for 192 KiB, filled to 0.8, come out with 16 to
    32 elements a thread and fit without spills (tests/cuda/test_registers.py); twice as large ones do not, and with
    half as large ones a thread has less than two loads of 16 bytes under way.

    There is no matrix unit in the sense of `cube_cores`: products, attention and convolutions are the library's. The
    sizes of its buffers (L1, L0) are nobody's.

    `burst_bytes` is a sector, the least that L2 and memory exchange; `vector_bytes` what the 32 lanes of a warp take of
    32 bits each, twice: a compare of 64 elements or 128, as short as anything is worth. `clock` is the H100 SXM's
    boost clock under load. `scalar_access_cycles`, `transfer_cycles` and `instruction_cycles` are chosen: what a load
    takes from memory (500 to 800 cycles, as microbenchmarks of Hopper find) is hidden by the other warps, of which
    there are some dozens. `launch_cycles` is the 2 to 3 microseconds between two kernels of a stream.
    """
    return NpuTarget(
        name=name,
        cube_cores=0,
        vector_cores=_PROGRAMS * _MULTIPROCESSORS,
        unified_buffer=192 * KIB,
        l1=0,
        l0a=0,
        l0b=0,
        l0c=0,
        l2=50 * MIB,
        memory=memory,
        memory_bandwidth=bandwidth,
        burst_bytes=32,
        max_grid=2**31 - 1,
        vector_bytes=256,
        clock=1.755e9,
        scalar_access_cycles=16,
        transfer_cycles=16,
        instruction_cycles=4,
        launch_cycles=4400,
        l2_to_memory=2.0,
        threads_by_tile=((128, 32), (256, 64), (512, 128), (4096, 256), (8192, 512), (16384, 512)),
    )


GPUS = (_hopper("H100", 80 * GIB, 3.35e12), _hopper("H200", 141 * GIB, 4.8e12))
