"""The matrix product of tiles: C[M, N] += A[M, K] @ B[K, N] on dense row-major buffers of static size.

A register block of C, `rows` x `vectors` accumulators, stays in registers over a block of K; for each k it needs
`vectors` loads of B and `rows` broadcasts of A. Tiles fit the Unified Buffer and so the host's L2 cache; the loops are
ordered so that a column panel of B stays in L1. Operands of another type are first converted to the type that is
computed in, int8 to f32: the product of two is at most 2**14, so over at most 1024 steps of K every sum is exact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .builder import BIT_WIDTHS, LLVM_TYPES, llvm_type
from .library import Function, Library, UnknownFunction

K_BLOCK = 512
COMPUTE_TYPE = {"f32": "f32", "f16": "f32", "f64": "f64", "i32": "f32"}  # by the type of the accumulator
OPERANDS = ("f32", "f64", "f16", "bf16", "i8", "f8E4M3FN", "f8E5M2")


@dataclass(frozen=True)
class HostVectors:
    """The host's vector unit: bits of a register and how many there are."""

    bits: int = 512
    registers: int = 32

    @classmethod
    def of_features(cls, features: dict[str, bool]) -> HostVectors:
        """From LLVM's feature names of the host."""
        if features.get("avx512f"):
            return cls(512, 32)
        if features.get("avx"):
            return cls(256, 16)
        return cls(128, 32 if features.get("neon") else 16)


@dataclass(frozen=True)
class MatmulFunction:
    """`void symbol(ptr c, ptr a, ptr b, ptr scratch)`; `scratch`: 64-byte aligned, `scratch_bytes` long (0: null)."""

    symbol: str
    text: str
    declarations: tuple[str, ...]
    scratch_bytes: int


@dataclass(frozen=True)
class Shape:
    m: int
    n: int
    k: int


def matmul(
    library: Library,
    shape: tuple[int, int, int],
    operands: tuple[str, str],
    accumulator: str,
    host: HostVectors = HostVectors(),
    accumulate: bool = True,
) -> MatmulFunction:
    """Adds to `library` the product of a tile [M, K] and a tile [K, N] and returns it.

    shape: (M, N, K), any positive numbers. operands: elements of A and B (f32, f64, f16, bf16, f8E4M3FN, f8E5M2, i8).
    accumulator: the element of C: f32, f16 (summed in f32 within the call), f64 for f64 operands, i32 for i8 operands.
    accumulate: add to C, or overwrite it. Raises UnknownFunction for other combinations.
    """
    integers = [o == "i8" for o in operands]
    doubles = [o == "f64" for o in operands]
    fits = accumulator in COMPUTE_TYPE and all(o in OPERANDS for o in operands)
    if not fits or set(integers) != {accumulator == "i32"} or set(doubles) != {accumulator == "f64"}:
        raise UnknownFunction(f"tl.dot of {operands[0]} and {operands[1]} into {accumulator} is not supported")
    m, n, k = shape
    kind = "add" if accumulate else "set"
    symbol = ".".join(("npu.matmul", *operands, accumulator, f"{m}x{n}x{k}", kind))
    return library.add(_Writer(library, symbol, Shape(m, n, k), operands, accumulator, host, accumulate).function())


def register_block(m: int, columns: int, registers: int) -> int:
    """Rows of a register block: as many as leave room for a row of B and one broadcast, preferably a divisor of M."""
    most = max(1, min(m, (registers - 1 - columns) // columns))
    divisor = next(rows for rows in range(most, 0, -1) if m % rows == 0)
    return divisor if 2 * divisor >= most else most


class _Writer:
    """Writes one product."""

    def __init__(
        self,
        library: Library,
        symbol: str,
        shape: Shape,
        operands: tuple[str, str],
        accumulator: str,
        host: HostVectors,
        accumulate: bool,
    ) -> None:
        self.library, self.symbol, self.shape, self.operands = library, symbol, shape, operands
        self.accumulator, self.host, self.accumulate = accumulator, host, accumulate
        self.compute = COMPUTE_TYPE[accumulator]
        self.lanes = host.bits // BIT_WIDTHS[self.compute]
        self.lines: list[str] = []
        self.names = 0
        self.block = "entry"
        self.scratch_bytes = 0
        self.declarations: dict[str, None] = {}

    # -- pieces of IR ---------------------------------------------------------------------------------------------
    def fresh(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def assign(self, text: str) -> str:
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def at(self, pointer: str, element: str, *terms: tuple[str, int]) -> str:
        """Address of an element: `pointer` plus the sum of index * stride."""
        for index, stride in terms:
            if index == "0" or stride == 0:
                continue
            if index.lstrip("-").isdigit():
                offset = str(int(index) * stride)
            else:
                offset = index if stride == 1 else self.assign(f"mul nuw nsw i64 {index}, {stride}")
            pointer = self.assign(f"getelementptr inbounds {LLVM_TYPES[element]}, ptr {pointer}, i64 {offset}")
        return pointer

    @contextmanager
    def loop(
        self, stop: int, step: int, carried: list[tuple[str, str]] | None = None
    ) -> Iterator[tuple[str, list[str]]]:
        """A loop of at least one round; yields the index and the carried values, which the body replaces in place."""
        carried = carried or []
        before, head = self.block, self.fresh("loop")
        index, following = f"%{self.fresh('i')}", f"%{self.fresh('next')}"
        self.lines += [f"  br label %{head}", f"{head}:"]
        place = len(self.lines)
        names = [f"%{self.fresh('acc')}" for _ in carried]
        values = list(names)
        self.block = head
        yield index, values
        end = self.fresh("end")
        phis = [f"  {index} = phi i64 [ 0, %{before} ], [ {following}, %{self.block} ]"]
        phis += [
            f"  {name} = phi {type_} [ {first}, %{before} ], [ {last}, %{self.block} ]"
            for name, (type_, first), last in zip(names, carried, values)
        ]
        more = self.fresh("more")
        self.lines += [
            f"  {following} = add nuw nsw i64 {index}, {step}",
            f"  %{more} = icmp ult i64 {following}, {stop}",
            f"  br i1 %{more}, label %{head}, label %{end}",
            f"{end}:",
        ]
        self.lines[place:place] = phis
        self.block = end

    # -- the product ----------------------------------------------------------------------------------------------
    def function(self) -> MatmulFunction:
        a = self.converted("%a", self.operands[0], self.shape.m * self.shape.k)
        b = self.converted("%b", self.operands[1], self.shape.k * self.shape.n)
        column = 0
        for width, vectors, count in self.column_panels():
            if count == 1:
                self.panel(a, b, str(column), width, vectors)
            elif count:
                with self.loop(count * width * vectors, width * vectors) as (offset, _):
                    start = self.assign(f"add nuw nsw i64 {offset}, {column}") if column else offset
                    self.panel(a, b, start, width, vectors)
            column += count * width * vectors
        parameters = "ptr noalias %c, ptr noalias readonly %a, ptr noalias readonly %b, ptr noalias %scratch"
        text = "\n".join(
            [
                f"define internal void @{self.symbol}({parameters}) noinline optsize nounwind willreturn {{",
                "entry:",
                *self.lines,
                "  ret void",
                "}",
            ]
        )
        return MatmulFunction(self.symbol, text, tuple(self.declarations), self.scratch_bytes)

    def converted(self, pointer: str, element: str, count: int) -> str:
        """The operand in the type computed in: itself, or a copy in scratch."""
        if element == self.compute:
            return pointer
        copy = self.at("%scratch", "i8", ("1", self.scratch_bytes))
        self.scratch_bytes += -(-count * BIT_WIDTHS[self.compute] // 8 // 64) * 64
        whole = count // self.lanes * self.lanes
        for start, stop, lanes in ((0, whole, self.lanes), (whole, count, 1)):
            if start == stop:
                continue
            with self.loop(stop - start, lanes) as (index, _):
                source = self.at(pointer, element, ("1", start), (index, 1))
                raw = self.assign(f"load {llvm_type(element, lanes)}, ptr {source}, align {BIT_WIDTHS[element] // 8}")
                target = self.at(copy, self.compute, ("1", start), (index, 1))
                result = llvm_type(self.compute, lanes)
                self.lines.append(f"  store {result} {self.convert(raw, element, lanes)}, ptr {target}, align 4")
        return copy

    def convert(self, value: str, element: str, lanes: int) -> str:
        if element == "i8":
            return self.assign(f"sitofp {llvm_type('i8', lanes)} {value} to {llvm_type(self.compute, lanes)}")
        function: Function = self.library.function(f"convert_to_{self.compute}", (element,), lanes)
        return self.assign(function.call(value))

    def column_panels(self) -> Iterator[tuple[int, int, int]]:
        """(lanes, vectors, how many such panels) that cover N: the widest first, then ever narrower vectors."""
        rest, vectors, width = self.shape.n, 2, self.lanes
        while rest:
            panel = width * vectors
            yield width, vectors, rest // panel
            rest %= panel
            if vectors > 1:
                vectors = 1
            else:
                width = max(1, width // 2)

    def panel(self, a: str, b: str, column: str, width: int, vectors: int) -> None:
        """All rows of C in the columns from `column`."""
        rows = register_block(self.shape.m, vectors, self.host.registers)
        whole = self.shape.m // rows * rows
        for start in range(0, self.shape.k, K_BLOCK):
            depth = min(K_BLOCK, self.shape.k - start)
            add = self.accumulate or start > 0
            if whole == rows:
                self.register_block(a, b, "0", column, start, depth, rows, width, vectors, add)
            else:
                with self.loop(whole, rows) as (row, _):
                    self.register_block(a, b, row, column, start, depth, rows, width, vectors, add)
            if whole < self.shape.m:
                rest = self.shape.m - whole
                self.register_block(a, b, str(whole), column, start, depth, rest, width, vectors, add)

    def register_block(
        self,
        a: str,
        b: str,
        row: str,
        column: str,
        start: int,
        depth: int,
        rows: int,
        width: int,
        vectors: int,
        add: bool,
    ) -> None:
        """rows x (vectors * width) elements of C over `depth` steps of K."""
        vector = llvm_type(self.compute, width)
        a_rows = self.at(a, self.compute, (row, self.shape.k), ("1", start))
        b_columns = self.at(b, self.compute, ("1", start * self.shape.n), (column, 1))
        zero = (vector, "zeroinitializer" if width > 1 else "0.0")
        with self.loop(depth, 1, [zero] * (rows * vectors)) as (k, sums):
            b_row = self.at(b_columns, self.compute, (k, self.shape.n))
            a_column = self.at(a_rows, self.compute, (k, 1))
            size = BIT_WIDTHS[self.compute] // 8
            row_of_b = [
                self.assign(f"load {vector}, ptr {self.at(b_row, self.compute, ('1', j * width))}, align {size}")
                for j in range(vectors)
            ]
            for i in range(rows):
                factor = self.broadcast(self.at(a_column, self.compute, ("1", i * self.shape.k)), width)
                for j, right in enumerate(row_of_b):
                    sums[i * vectors + j] = self.fma(vector, width, factor, right, sums[i * vectors + j])
        for i in range(rows):
            for j in range(vectors):
                terms = ((row, self.shape.n), ("1", i * self.shape.n), (column, 1), ("1", j * width))
                self.update(self.at("%c", self.accumulator, *terms), sums[i * vectors + j], width, add)

    def broadcast(self, pointer: str, width: int) -> str:
        scalar_type = LLVM_TYPES[self.compute]
        scalar = self.assign(f"load {scalar_type}, ptr {pointer}, align {BIT_WIDTHS[self.compute] // 8}")
        if width == 1:
            return scalar
        vector = llvm_type(self.compute, width)
        one = self.assign(f"insertelement {vector} poison, {scalar_type} {scalar}, i32 0")
        return self.assign(f"shufflevector {vector} {one}, {vector} poison, <{width} x i32> zeroinitializer")

    def fma(self, vector: str, width: int, left: str, right: str, add: str) -> str:
        suffix = self.compute if width == 1 else f"v{width}{self.compute}"
        self.declarations[f"declare {vector} @llvm.fma.{suffix}({vector}, {vector}, {vector})"] = None
        return self.assign(f"call {vector} @llvm.fma.{suffix}({vector} {left}, {vector} {right}, {vector} {add})")

    def update(self, pointer: str, total: str, width: int, add: bool) -> None:
        """Adds `total` to C at `pointer`, or stores it there."""
        vector, stored = llvm_type(self.compute, width), llvm_type(self.accumulator, width)
        align = BIT_WIDTHS[self.accumulator] // 8
        if self.accumulator == "i32":
            total = self.assign(f"fptosi {vector} {total} to {stored}")
        if add:
            old = self.assign(f"load {stored}, ptr {pointer}, align {align}")
            if self.accumulator == "i32":
                total = self.assign(f"add {stored} {old}, {total}")
            else:
                old = self.assign(f"fpext {stored} {old} to {vector}") if stored != vector else old
                total = self.assign(f"fadd {vector} {old}, {total}")
        if self.accumulator == "f16":
            total = self.assign(f"fptrunc {vector} {total} to {stored}")
        self.lines.append(f"  store {stored} {total}, ptr {pointer}, align {align}")
