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

    What a program holds is registers: 64 KiB, a quarter of the multiprocessor's. The planner counts in its own way,
    each access twice, for double buffering, and all that is alive beside. In that count the following numbers were the
    best of 24 combinations on an H200 (benchmarks/gpu, 18 kernels, against stock Inductor's speed in the mean):

    - `programs_per_core` 32: a grid of 528 programs, each with its loop, waits for memory in step (0.86); with 4, 8, 16
      and 64 times as many the multiprocessors always have others to run (0.91 with 8).
    - `enough_buffer` 48 KiB, 1024 to 4096 elements: smaller tiles are more programs at a time (1.0; with 192 KiB 0.96).
    - `unified_buffer` 384 KiB (softmax of long rows 1.02, with 192 KiB 0.72). `least_rows` 1 (two: 0.97 of it).
    - `longest_row` 32768, what 1024 threads hold: softmax of such rows, read once, takes 0.69 of the time (H100).
    - `caches_loads`: a rotation of halves (rope) as one loop takes 0.90 of the time of two (H100).
    - `sums_columns_with_rows`: a layer norm's backward pass, read once, takes 0.66 of the time (H100).
    - `column_bytes` 128, what a warp reads at once: sums over columns at 0.95 (with 256 bytes 0.86); transposes keep
      256 (1.02; with 128 0.96).
    - `threads_by_tile`: 16 to 32 elements a thread, several loads of 16 bytes under way (8 to 16: 0.97 of it).
    - Loops whose loads are a tile ahead (`num_stages` of tl.range) were slower: 0.82 instead of 0.86.

    There is no matrix unit in the sense of `cube_cores`: products, attention and convolutions are the library's, and
    nobody reads `l1` and `l0`. `product_alignment` is what the bulk copies of Hopper's kernels take:
    rows that begin at multiples of 16 bytes (cuBLAS, "Tensor Core Usage").
    `burst_bytes` is a sector, the least that L2 and memory exchange. `clock` is the H100 SXM's. All other numbers are
    chosen, near what Ascend's chips have; `launch_cycles` are 2.5 microseconds.
    """
    return NpuTarget(
        name=name,
        cube_cores=0,
        vector_cores=_PROGRAMS * _MULTIPROCESSORS,
        unified_buffer=384 * KIB,
        enough_buffer=48 * KIB,
        least_rows=1,
        longest_row=32768,
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
        threads_by_tile=((128, 32), (256, 64), (4096, 128), (8192, 256), (16384, 512), (32768, 1024)),
        product_alignment=16,
        sorts_by_exchange=True,
        column_bytes=128,
        hints_eviction=True,
        caches_loads=True,
        sums_columns_with_rows=True,
        splits_tiles=True,
        sums_wide_integers=True,
    )


GPUS = (_hopper("H100", 80 * GIB, 3.35e12), _hopper("H200", 141 * GIB, 4.8e12))
