"""The product of packed tiles: C[M, N] += A[M, K] @ B[K, N], C dense and row-major, A and B packed (`products.py`).

A register block of C, `rows` x `vectors` registers, stays in registers over a block of K; each step along K needs
`vectors` loads of B and `rows` broadcasts of A. Of the three loops around it the outermost is along K, so that a panel
of B stays in the L1 cache while all rows of A pass it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .builder import BIT_WIDTHS, llvm_type
from .library import Library
from .products import PackedProduct

OFFSETS = "splat (i32 -2139062144)"  # 128 in each of four bytes
K_BLOCK = 256  # groups along K: a panel of B then takes 32 KiB


@dataclass(frozen=True)
class MatmulFunction:
    """`void symbol(ptr c, ptr a, ptr b, i64 rows, i64 columns, i64 depth)`: of C only the first `rows` and the first
    `columns`, of which whole panels are computed, over the first `depth` of K, of which whole groups are summed. Each
    is at least 1; `rows` is M unless the product is `partial`.
    """

    symbol: str
    text: str
    declarations: tuple[str, ...]


def matmul(library: Library, product: PackedProduct, accumulate: bool = True, partial: bool = True) -> MatmulFunction:
    """Adds to `library` a product of packed tiles and returns it. accumulate: add to C, or overwrite it."""
    return library.add(_Writer(product, accumulate, partial).function())


class _Writer:
    """Writes one product."""

    def __init__(self, product: PackedProduct, accumulate: bool, partial: bool) -> None:
        self.product, self.accumulate, self.partial = product, accumulate, partial
        self.vector = llvm_type(product.sums, product.lanes)
        self.groups = product.k // product.group
        self.lines: list[str] = []
        self.names = 0
        self.block = "entry"
        self.declarations: dict[str, None] = {}

    # -- pieces of IR ---------------------------------------------------------------------------------------------
    def fresh(self, prefix: str = "v") -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def assign(self, text: str) -> str:
        name = f"%{self.fresh()}"
        self.lines.append(f"  {name} = {text}")
        return name

    def at(self, pointer: str, *terms: tuple[str, int]) -> str:
        """`pointer` moved by the sum of index * bytes."""
        for index, stride in terms:
            if index == "0" or stride == 0:
                continue
            if index.isdigit():
                offset = str(int(index) * stride)
            else:
                offset = index if stride == 1 else self.assign(f"mul nuw nsw i64 {index}, {stride}")
            pointer = self.assign(f"getelementptr inbounds i8, ptr {pointer}, i64 {offset}")
        return pointer

    def enter(self, label: str) -> None:
        self.lines.append(f"{label}:")
        self.block = label

    @contextmanager
    def loop(
        self, stop: str, step: int, carried: list[tuple[str, str]] | None = None
    ) -> Iterator[tuple[str, list[str]]]:
        """A loop of at least one round; yields the index and the carried values, which the body replaces in place."""
        carried = carried or []
        before, head = self.block, self.fresh("loop")
        index, following = f"%{self.fresh('i')}", f"%{self.fresh('next')}"
        self.lines.append(f"  br label %{head}")
        self.enter(head)
        place = len(self.lines)
        names = [f"%{self.fresh('acc')}" for _ in carried]
        values = list(names)
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
        ]
        self.enter(end)
        self.lines[place:place] = phis

    @contextmanager
    def when(self, condition: str) -> Iterator[None]:
        """Code that runs where `condition` holds."""
        inside, after = self.fresh("then"), self.fresh("after")
        self.lines.append(f"  br i1 {condition}, label %{inside}, label %{after}")
        self.enter(inside)
        yield
        self.lines.append(f"  br label %{after}")
        self.enter(after)

    def call(self, result: str, name: str, *operands: tuple[str, str]) -> str:
        """A pure intrinsic; operands with their types."""
        self.declarations[f"declare {result} @{name}({', '.join(type_ for type_, _ in operands)})"] = None
        return self.assign(f"call {result} @{name}({', '.join(f'{type_} {value}' for type_, value in operands)})")

    # -- the product ----------------------------------------------------------------------------------------------
    def function(self) -> MatmulFunction:
        product = self.product
        groups = "%depth"
        if product.group > 1:
            rounded = self.assign(f"add nuw nsw i64 %depth, {product.group - 1}")
            groups = self.assign(f"udiv i64 {rounded}, {product.group}")
        if self.groups <= K_BLOCK:
            self.panels("0", groups)
        else:
            with self.loop(groups, K_BLOCK) as (start, _):
                rest = self.assign(f"sub nuw nsw i64 {groups}, {start}")
                self.panels(start, self.call("i64", "llvm.umin.i64", ("i64", rest), ("i64", str(K_BLOCK))))
        parameters = "ptr noalias %c, ptr noalias readonly %a, ptr noalias readonly %b, i64 %rows, i64 %columns"
        symbol = self.symbol()
        text = "\n".join(
            [
                f"define internal void @{symbol}({parameters}, i64 %depth) noinline optsize nounwind willreturn {{",
                "entry:",
                *self.lines,
                "  ret void",
                "}",
            ]
        )
        return MatmulFunction(symbol, text, tuple(self.declarations))

    def symbol(self) -> str:
        product = self.product
        kinds = [*("add" if self.accumulate else "set",), *("part",) * self.partial, *("ap",) * product.a_in_panels]
        shape = f"{product.m}x{product.n}x{product.k}"
        return ".".join(("npu.matmul", product.element, product.accumulator, shape, *kinds))

    def panels(self, start: str, groups: str) -> None:
        """All of C over `groups` steps from `start`."""
        product = self.product
        if product.n == product.panel:
            self.panel("0", start, groups)
        else:
            with self.loop("%columns", product.panel) as (column, _):
                self.panel(column, start, groups)

    def panel(self, column: str, start: str, groups: str) -> None:
        """All rows of C in the columns from `column`."""
        product = self.product
        size = product.group_bytes
        b = self.at("%b", (column, self.groups * size), (start, product.panel * size))
        first = self.corrections(b, groups) if product.a_is_offset else [self.zero(product.sums)] * product.vectors
        most = product.rows

        def block(row: str, rows: int) -> None:
            self.register_block(b, row, rows, column, start, groups, first)

        if not self.partial:
            if product.m == most:
                block("0", most)
            else:
                with self.loop(str(product.m), most) as (row, _):
                    block(row, most)
            return
        whole = self.assign(f"and i64 %rows, {-most}")
        if most > 1:
            self.whole_blocks(block, whole)
        else:
            with self.loop("%rows", 1) as (row, _):
                block(row, 1)
        rows = most // 2
        while rows:
            bit = self.assign(f"and i64 %rows, {rows}")
            with self.when(self.assign(f"icmp ne i64 {bit}, 0")):
                above = self.assign(f"and i64 %rows, {-2 * rows}")
                block(above, rows)
            rows //= 2

    def whole_blocks(self, block: Callable[[str, int], None], whole: str) -> None:
        with self.when(self.assign(f"icmp ne i64 {whole}, 0")):
            if self.product.m == self.product.rows:
                block("0", self.product.rows)
            else:
                with self.loop(whole, self.product.rows) as (row, _):
                    block(row, self.product.rows)

    def corrections(self, b: str, groups: str) -> list[str]:
        """For each column what A's offset has added too much over `groups` steps, negated."""
        product = self.product
        vector = self.vector
        with self.loop(groups, 1, [(vector, "zeroinitializer")] * product.vectors) as (k, sums):
            for j, right in enumerate(self.row_of_b(b, k)):
                sums[j] = self.multiply_add(OFFSETS, right, sums[j])
        return [self.assign(f"sub {vector} zeroinitializer, {total}") for total in sums]

    def row_of_b(self, b: str, k: str) -> list[str]:
        """The vectors of B of one step."""
        product = self.product
        row = self.at(b, (k, product.panel * product.group_bytes))
        width = product.lanes * product.group_bytes
        return [
            self.assign(f"load {self.loaded(product.lanes)}, ptr {self.at(row, ('1', j * width))}, align {width}")
            for j in range(product.vectors)
        ]

    def loaded(self, lanes: int) -> str:
        """The type of `lanes` groups: integers where a group is several numbers."""
        return llvm_type("i32" if self.product.group > 1 else self.product.element, lanes)

    def register_block(
        self, b: str, row: str, rows: int, column: str, start: str, groups: str, first: list[str]
    ) -> None:
        """`rows` x (vectors * lanes) elements of C over `groups` steps; sums begin with `first`."""
        product = self.product
        size = product.group_bytes
        across, along = (size, product.rows * size) if product.a_in_panels else (self.groups * size, size)
        a = self.at("%a", (row, self.groups * size), (start, along))
        vectors = product.vectors
        size_of_c = BIT_WIDTHS[product.accumulator] // 8
        corner = self.at("%c", (row, product.n * size_of_c), (column, size_of_c))
        with self.loop(groups, 1, [(self.vector, first[j]) for _ in range(rows) for j in range(vectors)]) as (k, sums):
            columns_of_b = self.row_of_b(b, k)
            a_column = self.at(a, (k, along))
            for i in range(rows):
                factor = self.broadcast(self.at(a_column, ("1", i * across)))
                for j, right in enumerate(columns_of_b):
                    sums[i * vectors + j] = self.multiply_add(factor, right, sums[i * vectors + j])
        before = None if start == "0" else self.assign(f"icmp ne i64 {start}, 0")
        for i in range(rows):
            for j in range(vectors):
                place = self.at(corner, ("1", (i * product.n + j * product.lanes) * size_of_c))
                self.update(place, sums[i * vectors + j], before)

    def broadcast(self, pointer: str) -> str:
        product = self.product
        scalar_type, vector = self.loaded(1), self.loaded(product.lanes)
        scalar = self.assign(f"load {scalar_type}, ptr {pointer}, align {product.group_bytes}")
        if product.lanes == 1:
            return scalar
        one = self.assign(f"insertelement {vector} poison, {scalar_type} {scalar}, i32 0")
        return self.assign(f"shufflevector {vector} {one}, {vector} poison, <{product.lanes} x i32> zeroinitializer")

    def multiply_add(self, left: str, right: str, add: str) -> str:
        """`add` plus, for each column, the products of a group."""
        product, vector = self.product, self.vector
        name, factors = product.instruction
        if product.group == 1:
            return self.call(vector, name, (vector, left), (vector, right), (vector, add))
        groups = self.loaded(product.lanes)
        if factors != groups:
            left, right = (self.assign(f"bitcast {groups} {factor} to {factors}") for factor in (left, right))
        return self.call(vector, name, (vector, add), (factors, left), (factors, right))

    def update(self, pointer: str, total: str, before: str | None) -> None:
        """Adds `total` to C at `pointer`, or stores it there. `before`: whether steps of K came before these."""
        product = self.product
        sums, accumulator = self.vector, llvm_type(product.accumulator, product.lanes)
        align = BIT_WIDTHS[product.accumulator] // 8
        if product.accumulator == "i32" and product.sums == "f32":
            total, sums = self.assign(f"fptosi {sums} {total} to {accumulator}"), accumulator
        if self.accumulate or before:
            old = self.assign(f"load {accumulator}, ptr {pointer}, align {align}")
            if not self.accumulate:
                old = self.assign(
                    f"select i1 {before}, {accumulator} {old}, {accumulator} {self.zero(product.accumulator)}"
                )
            if product.accumulator == "f16":
                old = self.assign(f"fpext {accumulator} {old} to {sums}")
            total = self.assign(f"{'add' if product.accumulator == 'i32' else 'fadd'} {sums} {old}, {total}")
        if product.accumulator == "f16":
            total = self.assign(f"fptrunc {sums} {total} to {accumulator}")
        self.lines.append(f"  store {accumulator} {total}, ptr {pointer}, align {align}")

    def zero(self, element: str) -> str:
        """No number added to any column."""
        return "zeroinitializer" if self.product.lanes > 1 else "0" if element == "i32" else "0.0"
