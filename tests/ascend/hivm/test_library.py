"""The table of library functions against the library itself, whose bitcode is run on the host
(tools/ascend_library.py).

Each function is called with operands that lie well, and with operands that lie badly in each way that its scalar branch
tests for: the table must say how many elements go one by one, and the library must make that many scalar accesses, one
to five for each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from pathlib import Path

import llvmlite.binding as llvm
import pytest

from inductor_npu.ascend.compilation import compile_kernels
from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.ascend.hivm import callees
from inductor_npu.ascend.hivm.ir import Function
from inductor_npu.ascend.hivm.machine import Buffer, Known
from inductor_npu.ascend.hivm.parser import parse
from inductor_npu.ascend.hivm.verdict import Walk, arguments_environment
from tests.ascend.hivm.cases import CASES
from tools.ascend_library import Library, View
from tools.host_process import HostCodeError, HostProcess

pytestmark = [pytest.mark.ascend, pytest.mark.slow]

# Accesses that a call may make besides its loops: the mask of a selection, the first numbers of a range, two for each
# reduced row.
FIXED = 32
PLACE = 1 << 16  # bytes between operands in the Unified Buffer
BITS = {"float": "f32", "half": "f16", "int32_t": "i32", "int64_t": "i64", "int16_t": "i16", "bool": "i1"}


@pytest.fixture(scope="module")
def library(ascend: AscendEnvironment) -> Library:
    return Library(ascend.programs.parent / "lib" / "meta_op.aiv.bc")


def buffer(
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    place: int = 0,
    offset: int = 0,
    element: str = "f32",
    space: str = "ub",
) -> Buffer:
    return Buffer(-1, space, element, shape, shape, strides, offset, place * PLACE)


class CannotCallError(Exception):
    """The library cannot be asked about a call."""


def check(library: Library, name: str, operands: list[Known]) -> str | None:
    """How table and library differ about one call; None if they agree. Raises CannotCallError."""
    callee = callees.find(name)
    if callee is None:
        return "not in the table"
    kinds = library.parameters(name)
    if len(kinds) != len(operands):
        raise CannotCallError("the compiler leaves out what the library's newer signature has")
    arguments: list[View | int | float] = []
    for operand, kind in zip(operands, kinds):
        if isinstance(operand, Buffer):
            arguments.append(as_view(operand))
        else:
            arguments.append(float(operand or 0) if kind == "float" else int(operand or 0) if operand == operand else 0)
    trace = library.call(name, arguments)
    hidden = callee.hidden(name, operands) if callee.hidden else None
    elements = 0 if hidden is None else hidden[0]
    assert elements is not None
    # One element takes a read of each operand and a write of the result.
    if elements <= trace.scalar + FIXED and trace.scalar <= 5 * elements + FIXED:
        return None
    return f"table: {elements} elements, library: {trace.scalar} scalar accesses"


def as_view(operand: Buffer) -> View:
    sizes = tuple(size if size is not None else limit for size, limit in zip(operand.shape, operand.limit))
    if None in sizes:
        raise CannotCallError("an operand's size is known at run time only")
    strides = tuple(stride if stride is not None else 1000 for stride in operand.strides)
    space = "gm" if operand.space == "gm" else "ub"
    offset = 0 if operand.space == "gm" else operand.offset or 0
    return View(space, sizes, strides, operand.address or 0, offset)  # type: ignore[arg-type]


# ---- the calls of real kernels ----


class Calls(Walk):
    """Collects the library calls of a function."""

    def __init__(self, function: Function) -> None:
        super().__init__(function, arguments_environment(function, {}))
        self.calls: list[tuple[str, list[Known]]] = []

    def _call(self, operation, loops) -> None:
        super()._call(operation, loops)
        operands = [self.environment.get(value) for value in operation.operands]
        self.calls.append((operation.attributes["callee"], operands))


def test_every_call_of_every_case(library: Library):
    known = set(library.callees)
    wrong, checked, cannot = [], 0, []
    for name, compilation in zip(CASES, compile_kernels([case.source for case in CASES.values()], "Ascend910B3")):
        for function in parse(str(compilation.hivm)).functions:
            walk = Calls(function)
            walk.run()
            for callee, operands in walk.calls:
                if callee not in known or "lock" in callee:  # of the cube's library, or one that waits for another core
                    continue
                try:
                    difference = check(library, callee, operands)
                except CannotCallError as error:
                    cannot.append(f"{name}: {callee}: {error}")
                    continue
                checked += 1
                if difference is not None:
                    wrong.append(f"{name}: {callee}: {difference}")
    assert not wrong
    assert checked > 700, cannot


# ---- operands that lie well and badly ----

Place = tuple[int, int, int]  # of first source, second source, result


def _one(n: int, strides: Place, offsets: Place, index: int, element: str = "f32") -> Buffer:
    return buffer((n,), (strides[index],), index, offsets[index], element)


def _scratch(n: int = 8192) -> Buffer:
    return buffer((n,), (1,), 3)


ONE_AXIS: dict[str, Callable[[int, Place, Place], list[Known]]] = {
    "vadd_1d_float": lambda n, s, o: [_one(n, s, o, 0), _one(n, s, o, 1), _one(n, s, o, 2), _scratch()],
    "vexp_1d_float": lambda n, s, o: [_one(n, s, o, 0), _one(n, s, o, 2), _scratch()],
    "vadds_vs_1d_float": lambda n, s, o: [_one(n, s, o, 0), 1.0, _one(n, s, o, 2), _scratch()],
    "vcast_float_to_half_1d_with_mode": lambda n, s, o: [_one(n, s, o, 0), _one(n, s, o, 2, "f16"), 0],
    "vcast_int32_t_to_float_1d_with_mode": lambda n, s, o: [_one(n, s, o, 0, "i32"), _one(n, s, o, 2), 0],
    "vcmp_eq_1d_float": lambda n, s, o: [_one(n, s, o, 0), _one(n, s, o, 1), buffer((n,), (1,), 2, 0, "i1")],
    "vcmps_eq_1d_float": lambda n, s, o: [_one(n, s, o, 0), 1.0, buffer((n,), (1,), 2, 0, "i1")],
    "vsel_vv_1d_bool_float": lambda n, s, o: [
        buffer((n,), (1,), 3, 0, "i1"), _one(n, s, o, 0), _one(n, s, o, 1), _one(n, s, o, 2), buffer((16,), (1,), 4),
    ],
    "broadcast_scalar_float_to_1d": lambda n, s, o: [1.0, _one(n, s, o, 2)],
    "broadcast_scalar_bfloat16_t_to_1d": lambda n, s, o: [1, _one(n, s, o, 2, "bf16")],
    "broadcast_scalar_int64_t_to_1d": lambda n, s, o: [1, _one(n, s, o, 2, "i64")],
    "load_gm_to_ubuf_1d_float": lambda n, s, o: [
        buffer((n,), (s[0],), 0, o[0], space="gm"), _one(n, s, o, 2), 0, 0.0, 0,
    ],
    "store_ubuf_to_gm_1d_float": lambda n, s, o: [_one(n, s, o, 0), buffer((n,), (s[2],), 0, o[2], space="gm"), 0],
    "flip_1d_float": lambda n, s, o: [_one(n, s, o, 0), _one(n, s, o, 2)],
    "arange_1d_int64_t": lambda n, s, o: [_one(n, s, o, 2, "i64"), 0, 1],
    "interleave_1d_float": lambda n, s, o: [
        buffer((n,), (1,), 0, o[0]), buffer((n,), (1,), 1, o[1]), buffer((2 * n,), (1,), 2, o[2]), _scratch(16 * n),
    ],
    "deinterleave_channel_0_from_2_channels_1d_float": lambda n, s, o: [
        buffer((2 * n,), (s[0],), 0, o[0]), _one(n, s, o, 2),
    ],
    "enablevc_reduce_sum_r_float": lambda n, s, o: [_one(n, s, o, 0), buffer((1,), (1,), 2), _scratch(), 0.0],
}  # fmt: skip
PACKED, NOWHERE = (1, 1, 1), (0, 0, 0)
LAYOUTS: dict[str, tuple[int, Place, Place]] = {
    "8 elements": (8, PACKED, NOWHERE),
    "64 elements": (64, PACKED, NOWHERE),
    "1000 elements": (1000, PACKED, NOWHERE),
    "all misaligned alike": (1000, PACKED, (1, 1, 1)),
    "source misaligned": (1000, PACKED, (1, 0, 0)),
    "result misaligned": (1000, PACKED, (0, 0, 1)),
    "a block apart": (512, (8, 8, 8), NOWHERE),
    "two apart": (512, (2, 2, 2), NOWHERE),
}


@pytest.mark.parametrize(("name", "layout"), list(product(ONE_AXIS, LAYOUTS)))
def test_one_axis(name: str, layout: str, library: Library):
    if re.match(r"v(cmp|sel|cast)|interleave|deinter|broad", name) and layout == "all misaligned alike":
        pytest.skip("the table does not tell equal misalignment from unequal here; both are scalar throughout")
    assert check(library, name, ONE_AXIS[name](*LAYOUTS[layout])) is None


Shape = tuple[int, int, tuple[int, int], int, tuple[int, int]]


def _two(shape: Shape, place: int, element: str = "f32") -> Buffer:
    rows, columns, strides, offset, _ = shape
    return buffer((rows, columns), strides, 2 * place, offset, element)


def _device(shape: Shape) -> Buffer:
    return buffer(shape[:2], shape[4], space="gm")


def _column(shape: Shape, place: int, element: str = "f32") -> Buffer:
    return buffer((shape[0], 1), (1, 1), 2 * place, 0, element)


TWO_AXES: dict[str, Callable[[Shape], list[Known]]] = {
    "vadd_2d_float": lambda t: [_two(t, 0), _two(t, 1), _two(t, 2), buffer((8192,), (1,), 6)],
    "vadd_2d_int32_t": lambda t: [_two(t, 0, "i32"), _two(t, 1, "i32"), _two(t, 2, "i32"), buffer((8192,), (1,), 6)],
    "vexp_2d_float": lambda t: [_two(t, 0), _two(t, 1), buffer((8192,), (1,), 6)],
    "load_gm_to_ubuf_2d_float": lambda t: [_device(t), _two(t, 0), 0, 0.0, 0],
    "store_ubuf_to_gm_2d_float": lambda t: [_two(t, 0), _device(t), 0],
    "enablevc_reduce_max_ar_float": lambda t: [_two(t, 0), _column(t, 1), buffer((8192,), (1,), 6), 0.0],
    "reduce_sum_ar_int32_t": lambda t: [_two(t, 0, "i32"), _column(t, 1, "i32"), buffer((8192,), (1,), 6), 0],
    "reduce_prod_ar_float": lambda t: [_two(t, 0), _column(t, 1), buffer((8192,), (1,), 6), 0.0],
    "reduce_sum_ra_float": lambda t: [
        _two(t, 0), buffer((1, t[1]), (t[1], 1), 2), buffer((8192,), (1,), 6), 0.0,
    ],
}  # fmt: skip
TILES: dict[str, Shape] = {
    "packed": (16, 256, (256, 1), 0, (300, 1)),
    "padded rows": (16, 100, (104, 1), 0, (100, 1)),
    "narrow padded rows": (16, 3, (8, 1), 0, (3, 1)),
    "an aligned part": (16, 256, (256, 1), 8, (300, 1)),
    "a block apart": (16, 16, (128, 8), 0, (3, 100)),
    "transposed in device memory": (16, 16, (16, 1), 0, (1, 100)),
    "uneven rows": (16, 100, (100, 1), 0, (104, 1)),
}


@pytest.mark.parametrize(("name", "tile"), list(product(TWO_AXES, TILES)))
def test_two_axes(name: str, tile: str, library: Library):
    assert check(library, name, TWO_AXES[name](TILES[tile])) is None


def test_the_table_names_functions_that_exist(library: Library):
    """Each pattern of the table fits a function of the library, and each function but those for debugging has a
    pattern.
    """
    debugging = re.compile(r"(assert|print|init_debug|finish_debug)")
    unknown = [name for name in library.callees if callees.find(name) is None and not debugging.match(name)]
    assert not unknown


# ---- the host process: what goes wrong in it is an error of the call ----

FUNCTIONS = """
declare void @llvm.hivm.PIPE(i64)
define void @_mlir_ciface_works(i64 %pipe) { call void @llvm.hivm.PIPE(i64 %pipe) ret void }
define void @_mlir_ciface_crashes(ptr %memref) { store i32 1, ptr inttoptr (i64 8 to ptr) ret void }
define bfloat @_mlir_ciface_passes(bfloat %x) { ret bfloat %x }
define void @_mlir_ciface_writes(ptr %memref, i64 %at) {
  %base = load ptr addrspace(6), ptr %memref
  %place = getelementptr i8, ptr addrspace(6) %base, i64 %at
  %old = load i64, ptr addrspace(6) %place
  store i64 1, ptr addrspace(6) %place
  call void @llvm.hivm.PIPE(i64 %old)
  ret void
}
"""


@pytest.fixture
def small(tmp_path: Path) -> Library:
    """A library of FUNCTIONS."""
    (tmp_path / "small.bc").write_bytes(llvm.parse_assembly(FUNCTIONS).as_bitcode())
    return Library(tmp_path / "small.bc")


def test_a_crash_names_the_function_and_the_next_call_works(small: Library):
    with pytest.raises(HostCodeError, match="crashes ended its process: SIGSEGV"):
        small.call("crashes", [View("ub", (8,), (1,))])
    assert small.call("works", [5]).instructions == [("hivm.PIPE", (5, 0, 0, 0, 0))]


def test_a_symbol_that_the_host_lacks_is_named():
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_default_triple().create_target_machine()
    asks = "declare void @absent() define void @run(ptr %slots) { call void @absent() ret void }"
    code = target.emit_object(llvm.parse_assembly(asks))
    with pytest.raises(HostCodeError, match="needs what this host does not have: absent"):
        HostProcess().run("asks", code, [])


def test_values_of_bfloat_need_nothing_of_the_host(small: Library):
    assert small.parameters("passes") == ["i16"]
    assert small.call("passes", [0x3F80]).instructions == []


def test_memory_is_zero_at_each_call(small: Library):
    for _ in range(2):
        trace = small.call("writes", [View("ub", (8,), (1,)), 16])
        assert trace.instructions == [("hivm.PIPE", (0, 0, 0, 0, 0))]
        assert trace.scalar == 2


@pytest.mark.parametrize("at", [-8, 4 << 20])
def test_an_access_outside_of_the_memory_crashes(at: int, small: Library):
    with pytest.raises(HostCodeError, match="SIGSEGV"):
        small.call("writes", [View("ub", (8,), (1,)), at])


def test_an_operand_outside_of_the_memory_is_refused(small: Library):
    with pytest.raises(ValueError, match="does not lie in"):
        small.call("writes", [View("ub", (1 << 20, 1), (1000, 1)), 0])
