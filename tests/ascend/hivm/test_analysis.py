"""What `analyse` says of kernels whose final IR is stored: no compiler needed."""

from __future__ import annotations

import dataclasses
import time

import pytest

from inductor_npu.ascend.hivm import Verdict, analyse
from inductor_npu.ascend.hivm.machine import Buffer
from inductor_npu.ascend.hivm.work import _matrix
from inductor_npu.ascend.kernel import Launch
from tests.ascend.hivm.cases import CASES
from tests.ascend.hivm.golden import DATA, TARGET, analysis, tensor, text

NAMES = sorted(path.stem for path in DATA.glob("*.mlir"))


@pytest.mark.parametrize("name", NAMES)
def test_verdict_and_findings(name: str):
    case, found = CASES[name], analysis(name)
    assert found.verdict is case.verdict
    assert {finding.kind for finding in found.findings} == case.findings


# ---- findings ----


def test_a_scalar_argument_read_once_is_no_verdict():
    found = analysis("scalar_operand")
    assert found.verdict is Verdict.VECTOR
    (finding,) = found.findings
    assert finding.kind == "S1"
    assert finding.elements == 1
    assert "device memory" in finding.what


def test_a_loop_over_elements_says_where_and_how_many():
    (finding,) = analysis("gather_elements").findings
    assert finding.kind == "SL"
    assert finding.elements == 1024
    assert finding.what.startswith("kernels.py:")


def test_element_bursts_of_a_transposed_load():
    bursts = [finding for finding in analysis("transposed_load").findings if "bursts of 4 bytes" in finding.what]
    assert [finding.elements for finding in bursts] == [64 * 64, 64 * 64]


def test_a_hidden_scalar_tail_of_each_row():
    (finding,) = analysis("row_sum_i32").findings
    assert finding.kind == "HL"
    assert finding.elements == 8 * 8  # 8 rows, 32 bytes of int32 each
    assert "reduce_sum_ar_int32_t" in finding.what


def test_a_comparison_is_scalar_behind_the_last_256_bytes():
    (finding,) = analysis("where_on_data_1000").findings
    assert finding.elements == 1000 % 64


def test_an_unknown_library_function_is_an_assumption():
    strange = text("scalar_operand").replace("vmuls_vs_1d_float", "vwhat_1d_float")
    assert any("vwhat_1d_float" in assumption for assumption in analyse(strange, TARGET).assumptions)


def test_an_unknown_operation_is_an_assumption():
    lines = text("scalar_operand").splitlines()
    place = next(index for index, line in enumerate(lines) if "hivm.hir.set_mask_norm" in line)
    lines.insert(place, "    hivm.hir.surprise %arg5 : i32")
    assert any("hivm.hir.surprise" in assumption for assumption in analyse("\n".join(lines), TARGET).assumptions)


def test_arguments_read_and_written():
    found = analysis("gather_elements")
    assert (found.reads, found.writes) == ((0, 1), (2,))


# ---- memory ----


def test_unified_buffer_and_double_buffers():
    found = analysis("softmax_rows")
    assert found.ub_bytes == 98880
    assert found.ub_share == pytest.approx(98880 / (192 * 1024))
    assert found.buffers_doubled == 2
    assert found.loops_over_tiles


def test_without_a_loop_nothing_is_doubled():
    found = analysis("gather_elements")
    assert (found.buffers_doubled, found.loops_over_tiles) == (0, False)


def test_memories_of_the_cube():
    found = analysis("matmul_relu")
    assert found.l1_bytes == 2 * (128 + 128) * 64 * 2
    assert found.l0c_bytes == 128 * 128 * 4


# ---- cost of a launch ----


def test_without_a_launch_there_is_no_cost():
    found = analysis("add_grid_stride")
    assert found.cycles is None
    assert found.bytes_read is None


@pytest.mark.parametrize("elements", [40 * 2048, 40 * 2048 * 25, 100_001, 5])
def test_bytes_of_a_masked_loop_are_exact(elements: int):
    memory = tensor(elements)
    found = analysis("add_grid_stride", (40, 1, 1), x=memory, z=memory, y=memory, n=elements)
    assert found.bytes_read == 2 * 4 * elements
    assert found.bytes_written == 4 * elements


def test_bytes_of_a_grid_of_two_axes_with_tails_on_both():
    memory = tensor(1595 * 25600)
    found = analysis("tile_copy", (100, 100, 1), x=memory, y=memory, M=1595, N=25500, S=25600)
    assert found.bytes_read == found.bytes_written == 4 * 1595 * 25500


def test_bytes_of_a_while_loop():
    memory = tensor(70_000)
    found = analysis("copy_while", (40, 1, 1), x=memory, y=memory, n=70_000)
    assert found.bytes_read == found.bytes_written == 280_000


def test_a_loop_over_a_row_is_counted_for_its_real_length():
    memory = tensor(800 * 10_000)
    found = analysis("looped_row_sum", (100, 1, 1), x=memory, y=memory, M=800, N=10_000)
    assert found.bytes_read == 4 * 800 * 10_000
    assert found.bytes_written == 4 * 800


def test_indirect_rows_are_counted_although_their_addresses_are_unknown():
    memory = tensor(4096 * 96)
    found = analysis("embedding_tile_96", (4, 1, 1), x=memory, index=tensor(128, "i32"), y=memory, M=128)
    assert found.bytes_read == 128 * 4 + 128 * 96 * 4
    assert found.bytes_written == 128 * 96 * 4


def test_the_busiest_core_has_more_rounds():
    memory = tensor(41 * 16 * 256)
    small = analysis("tile_copy", (40, 1, 1), x=memory, y=memory, M=40 * 16, N=256, S=256)
    large = analysis("tile_copy", (41, 1, 1), x=memory, y=memory, M=41 * 16, N=256, S=256)
    assert large.cycles.mte2 == pytest.approx(2 * small.cycles.mte2, rel=0.01)


def test_a_gather_is_bound_by_the_scalar_core_and_a_copy_by_transfers():
    memory = tensor(40 * 1024)
    gather = analysis("gather_elements", (40, 1, 1), x=memory, index=tensor(40960, "i32"), y=memory, n=40960)
    copy = analysis("copy_while", (40, 1, 1), x=memory, y=memory, n=40960)
    assert gather.cycles.bound == "scalar"
    assert copy.cycles.bound == "mte2"


def test_a_matrix_product_uses_the_cube():
    memory = tensor(4096 * 4096, "fp16")
    found = analysis("matmul_relu", (32, 32, 1), a=memory, b=memory, c=memory, M=4096, N=4096, K=4096)
    assert found.cycles.cube == pytest.approx(4096**3 / 16**3 / 20, rel=0.05)
    assert any("mixed kernel" in assumption for assumption in found.assumptions)


def test_a_launch_of_65535_programs_is_quick():
    begin = time.perf_counter()
    memory = tensor(8)
    analysis("tile_copy", (65535, 1, 1), x=memory, y=memory, M=65535 * 16 - 3, N=256, S=256)
    assert time.perf_counter() - begin < 2


# ---- products: what L2 and L0 make of them


def product_cost(size: int, target=TARGET):
    memory = tensor(size * size, "fp16")
    arguments = {"a": memory, "b": memory, "c": memory, "M": size, "N": size, "K": size}
    grid = (size // 128, size // 128, 1)
    return analyse(text("matmul_relu"), target, Launch(grid, arguments)).cycles


def test_what_fits_in_l2_comes_from_memory_once():
    through_l2 = product_cost(2048)
    without = product_cost(2048, dataclasses.replace(TARGET, l2=0))
    assert through_l2.mte2 < without.mte2 / 3
    assert through_l2.mte2 >= without.mte2 / TARGET.l2_to_memory - 1


def test_a_product_of_one_part_waits_for_its_operands():
    """128 x 128 x 64 in fp16 is one part of k: L1 to L0 and the cube take turns."""
    cycles = product_cost(2048)
    assert cycles.mte1 > 0 and cycles.fix > 0
    assert cycles.launch >= cycles.cube + cycles.mte1
    assert 0 < cycles.share("cube") < 0.8


def test_longer_k_overlaps_parts():
    one = _matrix([*_operands(), True, 128, 128, 128], TARGET)
    four = _matrix([*_operands(), True, 128, 512, 128], TARGET)
    assert one.product == one.cube + one.mte1
    assert four.product == pytest.approx((four.cube + four.mte1) / 4 + 3 / 4 * max(four.cube, four.mte1))


def _operands():
    return [Buffer(-1, "cbuf", "f16", (128, 128), (128, 128), (128, 1), 0, 0) for _ in range(2)]


def test_vector_kernels_have_no_time_of_a_launch():
    memory = tensor(100_000)
    cycles = analysis("add_grid_stride", (40, 1, 1), x=memory, z=memory, y=memory, n=100_000).cycles
    assert cycles.launch is None
    assert cycles.longest == getattr(cycles, cycles.bound)
    assert (cycles.mte1, cycles.fix) == (0, 0)
