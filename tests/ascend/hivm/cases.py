"""Kernels whose class on the chip is known, with the class: what the rules of Ascend's compiler say of each access
pattern.

A case's findings: S1 single elements, SL a loop over elements, EL element DMA, HL a library function that is scalar
inside.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from inductor_npu.ascend.hivm import Verdict
from inductor_npu.ascend.kernel import KernelSource

VECTOR, ELEMENT_DMA, SCALAR = Verdict.VECTOR, Verdict.ELEMENT_DMA, Verdict.SCALAR
CUBE, MIXED = Verdict.CUBE, Verdict.MIXED
F32, F16, BF16 = "*fp32", "*fp16", "*bf16"
I64, I32, I16, I8, I1 = "*i64", "*i32", "*i16", "*i8", "*i1"
INT, LONG = "i32", "i64"
KERNELS = Path(__file__).with_name("kernels")


@dataclass(frozen=True)
class Case:
    """A kernel of the folder kernels with types, block sizes, and what becomes of it."""

    kernel: str
    signature: dict[str, str]
    constants: dict[str, int]
    verdict: Verdict
    findings: set[str] = field(default_factory=set)

    @property
    def source(self) -> KernelSource:
        return KernelSource(self.kernel, kernel_text(self.kernel), self.signature, dict(self.constants))


@cache
def _parts() -> dict[str, tuple[str, str]]:
    """Of each function of the folder of kernels: the imports of its file, and its own text."""
    functions = {}
    for path in sorted(KERNELS.glob("*.py")):
        text = path.read_text()
        body = ast.parse(text).body
        imports = "\n".join(ast.unparse(node) for node in body if isinstance(node, ast.Import | ast.ImportFrom))
        for node in body:
            if isinstance(node, ast.FunctionDef):
                lines = text.splitlines()[node.decorator_list[0].lineno - 1 : node.end_lineno]
                functions[node.name] = (imports, "\n".join(lines) + "\n")
    return functions


def kernel_text(name: str) -> str:
    """A module that holds one kernel and the functions it calls."""
    imports, text = _parts()[name]
    helpers = [own for helper, (_, own) in _parts().items() if helper.startswith("_") and helper in text]
    return imports + "\n\n\n" + "\n\n".join([*helpers, text])


CASES = {
    "copy_unmasked": Case("copy_unmasked", {"x": F32, "y": F32}, {"B": 1024}, VECTOR),
    "copy_777": Case("copy_unmasked", {"x": F32, "y": F32}, {"B": 777}, VECTOR),
    "copy_1": Case("copy_unmasked", {"x": F32, "y": F32}, {"B": 1}, VECTOR),
    "add_masked": Case("add_masked", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 2048}, VECTOR),
    "add_grid_stride": Case("add_grid_stride", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 2048}, VECTOR),
    "where_on_data": Case("where_on_data", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 2048}, VECTOR),
    "maximum_default": Case("maximum_default", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 2048}, VECTOR),
    "maximum_all": Case("maximum_all", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 2048}, VECTOR),
    "add_grid_stride_large": Case("add_grid_stride", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 20480}, VECTOR),
    "copy_sub_tiles": Case("copy_sub_tiles", {"x": F32, "y": F32, "n": INT}, {"B": 4096, "S": 1024}, VECTOR),
    "copy_unrolled": Case("copy_unrolled", {"x": F32, "y": F32, "n": INT}, {"B": 4096, "S": 1024}, VECTOR),
    "copy_unaligned_base": Case("copy_unaligned_base", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "copy_while": Case("copy_while", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "reversed_index": Case("reversed_index", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "modulo_index": Case("modulo_index", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "stride_two_masked": Case("stride_two_masked", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, ELEMENT_DMA, {"EL"}),
    "stride_three": Case("stride_three", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, ELEMENT_DMA, {"EL"}),
    "strided_store": Case("strided_store", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, ELEMENT_DMA, {"EL"}),
    "reversed_mask": Case("reversed_mask", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "gelu": Case("gelu", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "elementwise_math": Case("elementwise_math", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "library_math": Case("library_math", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "scalar_operand": Case("scalar_operand", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR, {"S1"}),
    "copy_64_bit_index": Case(
        "copy_64_bit_index", {"x": F32, "y": F32, "n": LONG, "stride": LONG}, {"B": 1024}, VECTOR
    ),
    "stride_two": Case("stride_two", {"x": F32, "y": F32}, {"B": 1024}, VECTOR),
    "tile_copy": Case("tile_copy", {"x": F32, "y": F32, "M": INT, "N": INT, "S": INT}, {"TR": 16, "TC": 256}, VECTOR),
    "tile_copy_narrow": Case(
        "tile_copy", {"x": F32, "y": F32, "M": INT, "N": INT, "S": INT}, {"TR": 16, "TC": 3}, ELEMENT_DMA, {"EL"}
    ),
    "tile_copy_777": Case(
        "tile_copy", {"x": F32, "y": F32, "M": INT, "N": INT, "S": INT}, {"TR": 16, "TC": 777}, VECTOR
    ),
    "tile_copy_static": Case("tile_copy_static", {"x": F32, "y": F32, "M": INT}, {"TR": 16, "TC": 777}, VECTOR),
    "transpose_in_buffer": Case(
        "transpose_in_buffer", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 64, "TC": 64}, VECTOR
    ),
    "transposed_load": Case(
        "transposed_load", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 64, "TC": 64}, ELEMENT_DMA, {"EL"}
    ),
    "transposed_store": Case(
        "transposed_store", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 64, "TC": 64}, ELEMENT_DMA, {"EL"}
    ),
    "transposed_store_static": Case(
        "transposed_store_static", {"x": F32, "y": F32}, {"TR": 64, "TC": 64}, ELEMENT_DMA, {"EL"}
    ),
    "permute_outer": Case("permute_outer", {"x": F32, "y": F32}, {"A": 8, "B": 8, "C": 64}, VECTOR),
    "permute_inner": Case("permute_inner", {"x": F32, "y": F32}, {"A": 4, "B": 16, "C": 64}, VECTOR),
    "four_axes": Case(
        "four_axes", {"x": F32, "y": F32, "s0": INT, "s1": INT, "s2": INT}, {"A": 4, "B": 4, "C": 8, "D": 64}, VECTOR
    ),
    "narrow_rows_broadcast": Case(
        "narrow_rows_broadcast", {"x": F32, "z": F32, "y": F32, "M": INT}, {"TR": 100}, ELEMENT_DMA, {"EL"}
    ),
    "narrow_rows_static": Case("narrow_rows_static", {"x": F32, "y": F32, "M": INT}, {"TR": 100}, VECTOR),
    "inner_size_one": Case(
        "inner_size_one", {"x": F32, "y": F32, "s0": INT, "s1": INT}, {"A": 16, "B": 16}, ELEMENT_DMA, {"EL"}
    ),
    "row_and_column": Case(
        "row_and_column",
        {"x": F32, "row": F32, "column": F32, "y": F32, "M": INT, "N": INT},
        {"TR": 16, "TC": 256},
        VECTOR,
    ),
    "strided_column": Case(
        "strided_column",
        {"x": F32, "column": F32, "y": F32, "M": INT, "N": INT},
        {"TR": 16, "TC": 256},
        ELEMENT_DMA,
        {"EL"},
    ),
    "block_pointer": Case("block_pointer", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 16, "TC": 256}, VECTOR),
    "causal_where": Case("causal_where", {"x": F32, "y": F32, "N": INT}, {"TR": 16, "TC": 256}, VECTOR),
    "if_scalar": Case("if_scalar", {"x": F32, "y": F32, "n": INT, "flag": INT}, {"B": 1024}, VECTOR),
    "cast_bf16_fp32": Case("cast", {"x": BF16, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "cast_fp32_bf16": Case("cast", {"x": F32, "y": BF16, "n": INT}, {"B": 1024}, VECTOR),
    "cast_i64_i32": Case("cast", {"x": I64, "y": I32, "n": INT}, {"B": 1024}, VECTOR),
    "cast_i32_i64": Case("cast", {"x": I32, "y": I64, "n": INT}, {"B": 1024}, VECTOR),
    "cast_i8_fp32": Case("cast", {"x": I8, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "cast_fp32_i8": Case("cast", {"x": F32, "y": I8, "n": INT}, {"B": 1024}, VECTOR),
    "cast_fp16_fp32": Case("cast", {"x": F16, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "cast_i1_fp32": Case("cast", {"x": I1, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "cast_fp32_i1": Case("cast", {"x": F32, "y": I1, "n": INT}, {"B": 1024}, VECTOR),
    "integer_add_i32": Case("integer_add", {"x": I32, "z": I32, "y": I32, "n": INT}, {"B": 1024}, VECTOR),
    "integer_add_i64": Case("integer_add", {"x": I64, "z": I64, "y": I64, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "integer_add_i16": Case("integer_add", {"x": I16, "z": I16, "y": I16, "n": INT}, {"B": 1024}, VECTOR),
    "integer_add_i8": Case("integer_add", {"x": I8, "z": I8, "y": I8, "n": INT}, {"B": 1024}, VECTOR),
    "integer_multiply_i32": Case("integer_multiply", {"x": I32, "z": I32, "y": I32, "n": INT}, {"B": 1024}, VECTOR),
    "integer_multiply_i64": Case(
        "integer_multiply", {"x": I64, "z": I64, "y": I64, "n": INT}, {"B": 1024}, SCALAR, {"SL"}
    ),
    "integer_multiply_i16": Case("integer_multiply", {"x": I16, "z": I16, "y": I16, "n": INT}, {"B": 1024}, VECTOR),
    "integer_multiply_i8": Case("integer_multiply", {"x": I8, "z": I8, "y": I8, "n": INT}, {"B": 1024}, VECTOR),
    "integer_divide_i32": Case("integer_divide", {"x": I32, "z": I32, "y": I32, "n": INT}, {"B": 1024}, VECTOR),
    "integer_divide_i64": Case("integer_divide", {"x": I64, "z": I64, "y": I64, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "integer_divide_i16": Case("integer_divide", {"x": I16, "z": I16, "y": I16, "n": INT}, {"B": 1024}, VECTOR),
    "integer_divide_i8": Case("integer_divide", {"x": I8, "z": I8, "y": I8, "n": INT}, {"B": 1024}, VECTOR),
    "integer_remainder_i32": Case(
        "integer_remainder", {"x": I32, "z": I32, "y": I32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}
    ),
    "integer_remainder_i64": Case(
        "integer_remainder", {"x": I64, "z": I64, "y": I64, "n": INT}, {"B": 1024}, SCALAR, {"HL", "SL"}
    ),
    "integer_remainder_i16": Case("integer_remainder", {"x": I16, "z": I16, "y": I16, "n": INT}, {"B": 1024}, VECTOR),
    "integer_remainder_i8": Case("integer_remainder", {"x": I8, "z": I8, "y": I8, "n": INT}, {"B": 1024}, VECTOR),
    "integer_select_i32": Case("integer_select", {"x": I32, "z": I32, "y": I32, "n": INT}, {"B": 1024}, VECTOR),
    "integer_select_i64": Case("integer_select", {"x": I64, "z": I64, "y": I64, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "integer_select_i16": Case("integer_select", {"x": I16, "z": I16, "y": I16, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "integer_select_i8": Case("integer_select", {"x": I8, "z": I8, "y": I8, "n": INT}, {"B": 1024}, VECTOR),
    "integer_and_i32": Case("integer_and", {"x": I32, "z": I32, "y": I32, "n": INT}, {"B": 1024}, VECTOR),
    "integer_and_i64": Case("integer_and", {"x": I64, "z": I64, "y": I64, "n": INT}, {"B": 1024}, VECTOR),
    "integer_and_i16": Case("integer_and", {"x": I16, "z": I16, "y": I16, "n": INT}, {"B": 1024}, VECTOR),
    "integer_and_i8": Case("integer_and", {"x": I8, "z": I8, "y": I8, "n": INT}, {"B": 1024}, VECTOR),
    "integer_shift_i32": Case("integer_shift", {"x": I32, "z": I32, "y": I32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "integer_shift_i64": Case("integer_shift", {"x": I64, "z": I64, "y": I64, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "integer_shift_i16": Case("integer_shift", {"x": I16, "z": I16, "y": I16, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "integer_shift_i8": Case("integer_shift", {"x": I8, "z": I8, "y": I8, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "select_by_float_i32": Case(
        "select_by_float", {"x": I32, "z": I32, "f": F32, "y": I32, "n": INT}, {"B": 1024}, VECTOR
    ),
    "select_by_float_i64": Case(
        "select_by_float", {"x": I64, "z": I64, "f": F32, "y": I64, "n": INT}, {"B": 1024}, VECTOR
    ),
    "select_by_float_fp32": Case(
        "select_by_float", {"x": F32, "z": F32, "f": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR
    ),
    "store_index_i32": Case("store_index", {"y": I32, "n": INT}, {"B": 1024}, VECTOR),
    "store_index_i64": Case("store_index", {"y": I64, "n": INT}, {"B": 1024}, VECTOR),
    "store_index_fp32": Case("store_index", {"y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "softmax_rows": Case("softmax_rows", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 8, "TC": 1024}, VECTOR),
    "softmax_one_row": Case("softmax_one_row", {"x": F32, "y": F32, "N": INT}, {"B": 1024}, VECTOR, {"S1"}),
    "row_sum_fp32": Case("row_sum", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, VECTOR),
    "row_sum_i32": Case("row_sum", {"x": I32, "y": I32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, SCALAR, {"HL"}),
    "row_max_fp32": Case("row_max", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, VECTOR),
    "row_max_i32": Case("row_max", {"x": I32, "y": I32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, SCALAR, {"HL"}),
    "column_sum_fp32": Case("column_sum", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, VECTOR),
    "column_sum_i32": Case("column_sum", {"x": I32, "y": I32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, VECTOR),
    "row_product_fp32": Case(
        "row_product", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, SCALAR, {"HL"}
    ),
    "column_product_fp32": Case(
        "column_product", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, VECTOR
    ),
    "row_sum_i64": Case("row_sum", {"x": I64, "y": I64, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, SCALAR, {"SL"}),
    "row_xor": Case("row_xor", {"x": I32, "y": I32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, SCALAR, {"HL"}),
    "looped_row_sum": Case("looped_row_sum", {"x": F32, "y": F32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, VECTOR),
    "full_sum": Case("full_sum", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR, {"S1"}),
    "row_argmax": Case("row_argmax", {"x": F32, "y": I32, "M": INT, "N": INT}, {"TR": 8, "TC": 256}, VECTOR, {"S1"}),
    "row_cumsum": Case("row_cumsum", {"x": F32, "y": F32, "N": INT}, {"TR": 16, "TC": 256}, SCALAR, {"SL"}),
    "column_cumsum": Case("column_cumsum", {"x": F32, "y": F32, "N": INT}, {"TR": 16, "TC": 256}, VECTOR),
    "sort_rows": Case("sort_rows", {"x": F32, "y": F32, "N": INT}, {"TR": 16, "TC": 256}, VECTOR),
    "flip_row": Case("flip_row", {"x": F32, "y": F32}, {"B": 1024}, SCALAR, {"HL"}),
    # A copy hands the bins from one iteration to the next: no work on a tile.
    "histogram": Case("histogram", {"x": I32, "y": I32}, {"B": 1024, "BINS": 32}, SCALAR, {"SL"}),
    "gather_elements": Case(
        "gather_elements", {"x": F32, "index": I32, "y": F32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}
    ),
    "scatter_elements": Case(
        "scatter_elements", {"x": F32, "index": I32, "y": F32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}
    ),
    "atomic_elements": Case(
        "atomic_elements", {"x": F32, "index": I32, "y": F32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}
    ),
    "gather_elements_i64": Case(
        "gather_elements", {"x": F32, "index": I64, "y": F32, "n": INT}, {"B": 1024}, SCALAR, {"SL"}
    ),
    "gather_in_buffer": Case(
        "gather_in_buffer", {"x": F32, "index": I32, "y": F32, "N": INT, "K": INT}, {"TN": 1024, "TK": 512}, VECTOR
    ),
    "embedding_tile_96": Case(
        "embedding_tile", {"x": F32, "index": I32, "y": F32, "M": INT}, {"TR": 32, "W": 96}, VECTOR, {"S1"}
    ),
    "embedding_tile_100": Case(
        "embedding_tile", {"x": F32, "index": I32, "y": F32, "M": INT}, {"TR": 32, "W": 100}, SCALAR, {"SL"}
    ),
    "embedding_rows": Case(
        "embedding_rows", {"x": F32, "index": I32, "y": F32, "M": INT, "W": INT}, {"TR": 32, "TC": 128}, VECTOR, {"S1"}
    ),
    "atomic_tile": Case("atomic_tile", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR),
    "atomic_scalar": Case("atomic_scalar", {"x": F32, "y": F32, "n": INT}, {"B": 1024}, VECTOR, {"S1"}),
    "atomic_tile_i64": Case("atomic_tile", {"x": I64, "y": I64, "n": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "random_numbers": Case("random_numbers", {"y": F32, "n": INT, "seed": INT}, {"B": 1024}, SCALAR, {"SL"}),
    "concat_two_stores": Case(
        "concat_two_stores", {"x": F32, "z": F32, "y": F32, "M": INT}, {"A": 64, "B": 32, "TR": 16}, VECTOR
    ),
    "interleave": Case("interleave", {"x": F32, "z": F32, "y": F32}, {"B": 1024}, VECTOR),
    "split_pairs": Case("split_pairs", {"x": F32, "y": F32, "z": F32}, {"B": 1024}, VECTOR),
    "matmul": Case(
        "matmul", {"a": F16, "b": F16, "c": F16, "M": INT, "N": INT, "K": INT}, {"BM": 128, "BN": 128, "BK": 64}, CUBE
    ),
    "matmul_relu": Case(
        "matmul_relu",
        {"a": F16, "b": F16, "c": F16, "M": INT, "N": INT, "K": INT},
        {"BM": 128, "BN": 128, "BK": 64},
        MIXED,
    ),
    "matmul_transposed_pointers": Case(
        "matmul_transposed_pointers",
        {"a": F16, "b": F16, "c": F16, "M": INT, "N": INT, "K": INT},
        {"BM": 128, "BN": 128, "BK": 64},
        SCALAR,
        {"HL", "NS"},
    ),
    "where_on_data_1000": Case("where_on_data", {"x": F32, "z": F32, "y": F32, "n": INT}, {"B": 1000}, SCALAR, {"HL"}),
    "inner_size_one_add": Case(
        "inner_size_one_add", {"x": F32, "y": F32, "s0": INT, "s1": INT}, {"A": 16, "B": 16}, ELEMENT_DMA, {"EL"}
    ),
    "slice_unaligned": Case("slice_unaligned", {"x": F32, "y": F32}, {"B": 1024}, VECTOR, {"S1"}),
}
