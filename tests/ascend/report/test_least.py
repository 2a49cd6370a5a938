"""The least that a launch has to move: each element that is needed once, however often and by whom it is read."""

from __future__ import annotations

from inductor_npu.ascend.kernel import Launch, TensorArgument
from inductor_npu.ascend.report.least import LeastBytes, Repeat, item_bytes, least_bytes


def tensor(*shape: int, strides: tuple[int, ...] = (1,), offset: int = 0, storage: int = 0, size: int = 4000):
    return TensorArgument("float32", shape, strides, offset, storage, size)


def least(body: str, *arguments: TensorArgument | int, grid: int = 1) -> LeastBytes:
    """Of a kernel with pointers and numbers p0, p1, ... whose body has the tile's 16 indices %i, as tensor<16xi32>."""
    kinds = ("!tt.ptr<f32>" if isinstance(argument, TensorArgument) else "i32" for argument in arguments)
    parameters = ", ".join(f"%p{number}: {kind}" for number, kind in enumerate(kinds))
    text = f"""module {{
  tt.func public @kernel({parameters}) {{
    %i = tt.make_range {{end = 16 : i32, start = 0 : i32}} : tensor<16xi32>
{body}
    tt.return
  }}
}}"""
    return least_bytes(text, Launch((grid, 1, 1), {f"p{number}": value for number, value in enumerate(arguments)}))


def load(pointer: str, index: str = "%i", mask: str = "") -> str:
    name = f"{pointer}_{index.strip('%')}"
    return f"""
    %{name}_s = tt.splat %{pointer} : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %{name}_a = tt.addptr %{name}_s, {index} : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    %{name} = tt.load %{name}_a{mask} : tensor<16x!tt.ptr<f32>>"""


def store(pointer: str, value: str, index: str = "%i") -> str:
    return f"""
    %{pointer}_s = tt.splat %{pointer} : !tt.ptr<f32> -> tensor<16x!tt.ptr<f32>>
    %{pointer}_a = tt.addptr %{pointer}_s, {index} : tensor<16x!tt.ptr<f32>>, tensor<16xi32>
    tt.store %{pointer}_a, {value} : tensor<16x!tt.ptr<f32>>"""


def sums(found: LeastBytes) -> tuple[int, int, bool]:
    return found.read, found.written, found.exact


SHIFTED = """
    %one = arith.constant dense<1> : tensor<16xi32>
    %next = arith.addi %i, %one : tensor<16xi32>"""


def test_what_is_read_twice_counts_once() -> None:
    """x[1:] - x[:-1] of 17 elements."""
    body = SHIFTED + load("p0") + load("p0", "%next") + "\n    %d = arith.subf %p0_next, %p0_i : tensor<16xf32>"
    assert sums(least(body + store("p1", "%d"), tensor(17), tensor(16, storage=1))) == (17 * 4, 16 * 4, True)


def test_what_is_accessed_more_than_once_is_named_with_the_bytes_that_it_costs() -> None:
    body = SHIFTED + load("p0") + load("p0", "%next") + "\n    %d = arith.subf %p0_next, %p0_i : tensor<16xf32>"
    found = least(body + store("p1", "%d"), tensor(17), tensor(16, storage=1))
    assert found.repeats == (Repeat("p0", 1.88, 15 * 4),)  # all but the first and the last twice


def test_runs_tell_neighbours_that_lie_apart_from_a_row() -> None:
    body = (
        """
    %two = arith.constant dense<2> : tensor<16xi32>
    %even = arith.muli %i, %two : tensor<16xi32>"""
        + load("p0", "%even")
        + store("p1", "%p0_even")
    )
    assert least(body, tensor(32), tensor(16, storage=1)).runs == {"p0": 4, "p1": 64}


def test_a_part_of_a_tensor_counts_as_that_part() -> None:
    body = load("p0") + store("p1", "%p0_i")
    assert sums(least(body, tensor(1000), tensor(16, storage=1))) == (16 * 4, 16 * 4, True)


def test_parts_of_one_storage_are_told_apart_and_two_views_of_one_part_are_not() -> None:
    body = load("p0") + load("p1") + "\n    %s = arith.addf %p0_i, %p1_i : tensor<16xf32>" + store("p2", "%s")
    result = tensor(16, storage=1)
    assert least(body, tensor(16), tensor(16, offset=16), result).read == 32 * 4
    assert least(body, tensor(16), tensor(16), result).read == 16 * 4


def test_what_a_mask_leaves_out_does_not_count() -> None:
    body = """
    %n = tt.splat %p2 : i32 -> tensor<16xi32>
    %m = arith.cmpi slt, %i, %n : tensor<16xi32>""" + load("p0", mask=", %m")
    assert least(body + store("p1", "%p0_i"), tensor(10), tensor(16, storage=1), 10).read == 10 * 4


def test_programs_and_iterations_that_read_the_same_row_count_it_once() -> None:
    body = (
        """
    %first = tt.get_program_id x : i32
    %step = tt.get_num_programs x : i32
    %tiles = arith.constant 8 : i32
    %width = arith.constant 16 : i32
    scf.for %tile = %first to %tiles step %step : i32 {"""
        + load("p0")
        + """
      %start = arith.muli %tile, %width : i32
      %starts = tt.splat %start : i32 -> tensor<16xi32>
      %places = arith.addi %starts, %i : tensor<16xi32>"""
        + store("p1", "%p0_i", "%places")
        + """
    }"""
    )
    assert sums(least(body, tensor(16), tensor(128, storage=1), grid=3)) == (16 * 4, 128 * 4, True)


def test_of_addresses_that_depend_on_data_the_whole_tensor_counts_inexactly() -> None:
    body = load("p0") + "\n    %j = arith.fptosi %p0_i : tensor<16xf32> to tensor<16xi32>" + load("p1", "%j")
    body += store("p2", "%p1_j")
    arguments = tensor(16), tensor(100, 2, strides=(2, 1), storage=1), tensor(16, storage=2)
    assert sums(least(body, *arguments)) == ((16 + 200) * 4, 16 * 4, False)


def test_sizes_of_dtypes() -> None:
    names = ("float32", "float16", "bfloat16", "float64", "int8", "uint8", "int64", "bool", "float8_e4m3fn")
    assert [item_bytes(name) for name in names] == [4, 2, 2, 8, 1, 1, 8, 1, 1]
