"""`NpuTarget`: the facts of one chip that code generation, tiling and the embedded NPU need."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024**2
GIB = 1024**3

# Of the 910B3: 1.6e12 bytes a second, by 40 vector cores of 1.8 GHz.
_DEVICE_BYTES_PER_CYCLE = 22.0


@dataclass(frozen=True, slots=True)
class NpuTarget:
    """One chip. Sizes are in bytes, bandwidths in bytes a second, per device; cycles are those of one vector core.

    `name` is what the Triton target's `arch` and Ascend's `--target` are called. `cube_cores` is 0 for a chip without a
    matrix unit. `memory` and `memory_bandwidth` are None where no source says them.

    `burst_bytes` is the shortest burst between memory and Unified Buffer, and the block in which rows begin there;
    `vector_bytes` what one vector instruction takes, a comparison included. Both, and `max_grid`, are what Ascend's
    documentation says of the 910B.

    The cube core multiplies fractals of `fractal_rows` rows of `fractal_bytes` bytes (cube_m_size, cube_n_size and
    cube_k_size in CANN's platform_config): operands are in whole fractals in L1, accumulators in squares of
    `fractal_rows`. `bias_table`, the bytes of a row of bias that a product may start from, and `l2`, the cache between
    memory and all cores, are those of the Atlas A2 in Ascend's catlass (arch.hpp).

    The rest are the numbers of the cost model and of the planner, with what they come from (docs/ascend.md, "Cost
    model"): `clock` is cube_freq in CANN's platform_config of the 910B; `scalar_access_cycles` is one element that the
    scalar core reads or writes in memory; `transfer_cycles` and `instruction_cycles` are what it takes to start a
    transfer and a vector instruction, `launch_cycles` a kernel (chosen: no source says them). `l2_to_memory` is the
    bandwidth of L2 relative to that of memory (l2BW and hbmBW of Ascend's boost-comm: an assumption); `l1_to_l0a_bytes`
    and `l1_to_l0b_bytes` are bytes a cycle (l1_to_l0_a_rate and l1_to_l0_b_rate in CANN's platform_config of other
    chips: an assumption). `few_comparisons` single comparisons cost no more than reading a kernel's argument.
    `smallest_tile`, in elements, is the least that is worth a program of its own.

    `enough_buffer` is how many bytes of the Unified Buffer a tile is to fill where it may choose: more programs with
    smaller tiles hide each other's waits where a core runs several. Only what rule 3 keeps whole and transposes take
    more. `least_rows` is how many rows a reduction takes together, if they fit: results of rows are vectors then (with
    one row, programs of the corpus take 0.9% fewer cycles on Ascend910B3 in the mean, but five of them more; with eight
    3.4% more: docs/tiling.md). `enough_buffer` None is all of it.

    `longest_row`: a row of up to so many elements that loops would read again stays in the tile if the values alive at
    once fit the Unified Buffer, without room for double buffering and beyond `config.reduction_tile`; 0 where such rows
    are read again.

    `programs_per_core` is how many programs a launch has at most for each vector core: more than one where the chip
    itself starts a program as another ends, so that they balance each other and one computes while another waits.

    `threads_by_tile` is for a chip whose programs are groups of threads: pairs of elements and threads, both growing. A
    program whose largest tile has at most so many elements runs on so many threads; the last pair is also for larger
    ones. Empty where a program has one thread, or its compiler chooses.

    `product_alignment` is at multiples of how many bytes the rows of matrices begin that the library's quick kernels
    take (lowering/graph_passes/products/padded_products.py); 0 where it makes no difference.

    `sorts_by_exchange` says whether rows are sorted by exchanging their elements, so that an order that is stable costs
    more than one that need not be; else by counting, for each element, those before it.

    `sums_wide_integers` says whether 64-bit integers are summed by vector instructions; else in limbs (codegen/emit/
    reductions.py).

    `column_bytes` is how wide a tile is at least where its rows are reduced to one (a sum over columns), None
    `vector_bytes`. `hints_eviction` says whether loads may tell L2 what it need not keep.

    `sums_columns_with_rows` says whether a kernel that reduces rows also sums columns of the same tensors, as in the
    backward pass of a layer norm, instead of a second kernel that reads them again.

    `caches_loads` says whether a core finds what it has just read in a cache of its own: subdomains of a kernel that
    read the same buffer share a loop then.

    `splits_tiles` says whether a tile falls into its even and its odd elements without a way through memory; else
    elements at equal distances are gathered (codegen/emit/on_chip_gather.py).
    """

    name: str
    cube_cores: int
    vector_cores: int
    unified_buffer: int
    l1: int
    l0a: int
    l0b: int
    l0c: int
    l2: int = 192 * MIB
    bias_table: int = 1024
    memory: int | None = None
    memory_bandwidth: float | None = None
    burst_bytes: int = 32
    max_grid: int = 65535
    vector_bytes: int = 256
    fractal_rows: int = 16
    fractal_bytes: int = 32
    clock: float = 1.8e9
    scalar_access_cycles: int = 64
    transfer_cycles: int = 16
    instruction_cycles: int = 4
    launch_cycles: int = 5400
    l2_to_memory: float = 5.0
    l1_to_l0a_bytes: int = 512
    l1_to_l0b_bytes: int = 256
    few_comparisons: int = 8
    smallest_tile: int = 1024
    float_types: tuple[str, ...] = ("fp16", "bf16", "fp32")
    enough_buffer: int | None = None
    least_rows: int = 2
    longest_row: int = 0
    programs_per_core: int = 1
    threads_by_tile: tuple[tuple[int, int], ...] = ()
    product_alignment: int = 0
    sorts_by_exchange: bool = False
    sums_wide_integers: bool = False
    column_bytes: int | None = None
    hints_eviction: bool = False
    caches_loads: bool = False
    sums_columns_with_rows: bool = False
    splits_tiles: bool = False

    def __post_init__(self) -> None:
        positive = ("vector_cores", "unified_buffer", "memory", "burst_bytes", "max_grid", "vector_bytes", "clock")
        for field in positive:
            value = getattr(self, field)
            if value is not None and value <= 0:
                raise ValueError(f"NpuTarget {self.name!r}: {field} must be positive, got {value}")

    @property
    def most_programs(self) -> int:
        """Programs of a launch on the vector cores."""
        return self.vector_cores * self.programs_per_core

    @property
    def device_bytes_per_cycle(self) -> float:
        """Bytes that one vector core moves from or to memory in a cycle, while all of them do. A chip of which no
        source says the bandwidth is taken to have the share for a core that the 910B3 has.
        """
        if self.memory_bandwidth is None:
            return _DEVICE_BYTES_PER_CYCLE
        return self.memory_bandwidth / (self.vector_cores * self.clock)

    @property
    def vector_cores_per_cube(self) -> int:
        """Vector cores that work beside one cube core; 0 without a matrix unit."""
        return self.vector_cores // self.cube_cores if self.cube_cores else 0

    @property
    def indirect_access_cycles(self) -> int:
        """Cycles of an element whose address is loaded: its own access, and that of its address."""
        return 2 * self.scalar_access_cycles

    @property
    def shortest_row(self) -> int:
        """Elements of 32 bits of a row that is worth a transfer of its own: a burst."""
        return self.burst_bytes // 4

    @property
    def largest_range(self) -> int:
        """Bytes of what loaded indices may lead to that are read as a whole for a tile: a sixth of the Unified Buffer,
        as it is there twice beside the places, the elements, and the rest of the kernel.
        """
        return self.unified_buffer // 6

    def threads_of(self, elements: int) -> int | None:
        """Threads of a program whose largest tile has so many elements; None where `threads_by_tile` says nothing."""
        fitting = (threads for most, threads in self.threads_by_tile if elements <= most)
        return next(fitting, self.threads_by_tile[-1][1] if self.threads_by_tile else None)

    def operand_bytes(self, rows: int, columns: int, item_bytes: int) -> int:
        """Bytes that a matrix of so many elements takes in L1: whole fractals."""
        across = _up(columns, self.fractal_bytes // item_bytes)
        return _up(rows, self.fractal_rows) * across * item_bytes

    def accumulator_bytes(self, rows: int, columns: int) -> int:
        """Bytes that a product of so many elements takes in L0C: squares of numbers of 32 bits."""
        return _up(rows, self.fractal_rows) * _up(columns, self.fractal_rows) * 4

    def product_cycles(self, rows: int, columns: int, inner_bits: int) -> int:
        """Cycles in which the cube core multiplies matrices whose rows and columns have `inner_bits` bits: one for each
        pair of fractals.
        """
        pairs = -(-rows // self.fractal_rows) * -(-columns // self.fractal_rows)
        return pairs * -(-inner_bits // (8 * self.fractal_bytes))

    def parts_to_l0(self, rows: int, columns: int, inner: int, item_bits: int) -> int:
        """In how many parts a step of a product moves from L1 to L0, each of which takes half of it: while one is
        multiplied, the next moves.
        """
        longest = self.l0a // 2 * 8 // (item_bits * max(rows, columns, 1)) // self.fractal_rows * self.fractal_rows
        return max(1, -(-inner // max(longest, self.fractal_rows)))

    @property
    def columns_at_once(self) -> int:
        """Columns of a tile, at least, whose rows are reduced to one, of the widest elements that are common."""
        return (self.column_bytes or self.vector_bytes) // 4

    def compared_at_once(self, item_bytes: int) -> int:
        """Elements of so many bytes that one instruction compares; what is left is compared one by one."""
        return self.vector_bytes // item_bytes


def _up(size: int, multiple: int) -> int:
    return -(-size // multiple) * multiple
