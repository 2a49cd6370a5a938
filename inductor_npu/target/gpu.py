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

    `unified_buffer` is what the planner counts, which is not what a program has: 64 KiB of registers, and 57 KiB of
    shared memory beside. The planner counts each access of a tile twice, for double buffering, and here one value of
    the tile is in registers while it is read. Tiles planned for 192 KiB, filled to 0.8, have 1024 to 8192 elements. Of
    299 kernels of the corpus none spills (`python -m corpus.cubins --every 6`).

    `threads_by_tile`: a thread that has at least four elements moves 16 bytes of float32 by one instruction, so that a
    tile of 1024 elements has 256 threads, and a smaller one has fewer. 8 warps are enough: four programs of 8 are half
    of what a multiprocessor keeps, with 64 registers a thread, which hold 16 elements of three values, the share of
    4096. Larger tiles have 16 warps, again with 16 elements a thread. More warps than 16 would leave a thread of four
    programs less than 32 registers; what is larger still waits for room and has up to 128. A row that one program
    reduces is spread over its warps, which exchange one number each through shared memory.

    There is no matrix unit in the sense of `cube_cores`: products, attention and convolutions are the library's. The
    sizes of its buffers (L1, L0) are nobody's.

    `burst_bytes` is a sector, the least that L2 and memory exchange. `clock` is the H100 SXM's. `vector_bytes`,
    `scalar_access_cycles`, `transfer_cycles`, `instruction_cycles` and `l2_to_memory` are chosen, near what Ascend's
    chips have: a load's latency is hidden by other warps. `launch_cycles`, chosen too, are 2.5 microseconds.
    """
    return NpuTarget(
        name=name,
        cube_cores=0,
        vector_cores=_PROGRAMS * _MULTIPROCESSORS,
        unified_buffer=384 * KIB,
        enough_buffer=48 * KIB,
        least_rows=1,
        programs_per_core=32,
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
        threads_by_tile=((128, 32), (256, 64), (512, 128), (4096, 256), (8192, 512)),
    )


GPUS = (_hopper("H100", 80 * GIB, 3.35e12), _hopper("H200", 141 * GIB, 4.8e12))
