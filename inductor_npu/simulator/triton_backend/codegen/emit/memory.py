"""Loads and stores of a chunk: the form of the address decides between a scalar, a vector and a gathered access.

A lane that is masked off never touches memory.
"""

from __future__ import annotations

from ...ttir.ir import Op
from ..forms.lane import Address, Index, Lane, Uniform, Vector, is_uniform, is_whole
from ..forms.scratch import Buffer, held
from ..forms.types import LLVM_TYPES, element_bytes, llvm_type, mangled
from ..forms.value import Val
from .checks import Checks
from .integers import Integers

NARROWED = ("i8", "i16", "i32")  # integers that wider ones may have been converted to


class Memory:
    """Writes loads and stores of chunks, in the device's memory and in scratch."""

    def __init__(self, integers: Integers) -> None:
        self.integers, self.lanes, self.scalars, self.b = integers, integers.lanes, integers.scalars, integers.b
        self.checks: Checks | None = None  # of the checked variant

    # -- device memory -----------------------------------------------------------------------------------------------
    def device_load(
        self, op: Op, pointer: Lane, mask: Lane | None, other: Lane | None, element: str, width: int
    ) -> Lane:
        """`load` from memory of the device by `op`, which a kernel may be asked to count or to have checked."""
        level = max(lane.level for lane in (pointer, mask, other) if lane is not None)
        if self.b.counting:
            self._count("bytes_read", pointer, mask, element, width, level)
        if self.checks is not None:
            self.checks.access(op, pointer, mask, element, width, level)
        return self.load(pointer, mask, other, element, width)

    def device_store(self, op: Op, pointer: Lane, value: Lane, mask: Lane | None, element: str, width: int) -> None:
        """`store` to memory of the device by `op`, which a kernel may be asked to count or to have checked."""
        if self.b.counting:
            self._count("bytes_written", pointer, mask, element, width, self.b.level)
        if self.checks is not None:
            self.checks.access(op, pointer, mask, element, width, self.b.level)
        self.store(pointer, value, mask, element, width)

    def before_atomic(self, op: Op, pointer: Val, element: str) -> None:
        """One element at `pointer` will be read and written by `op`."""
        if self.b.counting:
            for counter in ("bytes_read", "bytes_written"):
                self.b.count(counter, str(element_bytes(element)), self.b.level)
        if self.checks is not None:
            self.checks.access(op, Uniform(pointer), None, element, 0, self.b.level)

    def _count(self, counter: str, pointer: Lane, mask: Lane | None, element: str, width: int, level: int) -> None:
        """Counts the bytes of the lanes that are not masked off; lanes with one address and one mask are one access."""
        lanes = 1 if is_uniform(pointer) and (mask is None or isinstance(mask, Uniform)) else max(width, 1)
        size = element_bytes(element)
        if mask is None:
            self.b.count(counter, str(lanes * size), level)
        elif isinstance(mask, Uniform):
            moved = self.b.select(mask.val, self.b.constant("i64", lanes * size), self.b.constant("i64", 0))
            self.b.count(counter, moved.text, level)
        else:
            bits = self.lanes.vector(mask, width)
            number = f"%on{self.b.fresh('')}"
            self.b.sinks[level] += [
                f"  {number}.bits = bitcast {bits} to i{width}",
                f"  {number}.few = call i{width} @llvm.ctpop.i{width}(i{width} {number}.bits)",
                f"  {number}.many = zext i{width} {number}.few to i64",
                f"  {number}.bytes = mul i64 {number}.many, {size}",
            ]
            self.b.declare(f"declare i{width} @llvm.ctpop.i{width}(i{width})")
            self.b.count(counter, f"{number}.bytes", level)

    # -- loads -------------------------------------------------------------------------------------------------------
    def load(self, pointer: Lane, mask: Lane | None, other: Lane | None, element: str, width: int) -> Lane:
        """The elements at `pointer`; where `mask` is off, `other`, or zero if there is none."""
        if element == "i1":
            byte = self.load(pointer, mask, None, "i8", width)
            bit = self._bit(byte)
            return bit if mask is None or other is None else self._merge(mask, bit, other, width)
        if isinstance(mask, Uniform) and mask.val.constant is not None:
            if not mask.val.constant:
                return other if other is not None else Uniform(self.b.constant(element, 0))
            mask = None
        if mask is not None and is_whole(mask, width) and pointer.level >= mask.level:
            mask = None
        if is_uniform(pointer):
            return self._load_uniform(self.lanes.scalar(pointer), mask, other, element, width)
        size = element_bytes(element)
        if isinstance(pointer, Address) and pointer.step == size:
            return Vector(self._load_contiguous(pointer.pointer, mask, other, element, width))
        if isinstance(pointer, Address) and pointer.step == -size:
            return Vector(self._load_reversed(pointer.pointer, mask, other, element, width))
        return Vector(self._gather(pointer, mask, other, element, width))

    def _bit(self, byte: Lane) -> Lane:
        assert isinstance(byte, (Uniform, Vector)), "what is loaded is a scalar or a vector"
        return type(byte)(self.b.compare("icmp ne", byte.val, self.b.constant("i8", 0, byte.val.lanes)))

    def _merge(self, mask: Lane, value: Lane, other: Lane, width: int) -> Lane:
        if is_uniform(mask) and is_uniform(value) and is_uniform(other):
            return Uniform(self.b.select(self.lanes.scalar(mask), self.lanes.scalar(value), self.lanes.scalar(other)))
        value_vector, other_vector = self.lanes.vector(value, width), self.lanes.vector(other, width)
        return Vector(self.b.select(self.lanes.vector(mask, width), value_vector, other_vector))

    def _load_uniform(self, pointer: Val, mask: Lane | None, other: Lane | None, element: str, width: int) -> Lane:
        if mask is None:
            return Uniform(self.b.read(element, 0, f"load {llvm_type(element, 0)}, {pointer}", pointer))
        if not isinstance(mask, Uniform):
            some = self._any(self.lanes.vector(mask, width))
            value = self._load_uniform(pointer, Uniform(some), None, element, width)
            return self._merge(mask, value, other or Uniform(self.b.constant(element, 0)), width)
        passthru = other if other is not None and is_uniform(other) else None
        one = self._masked_load(
            pointer, self._one(mask.val), self._one(self.lanes.scalar(passthru)) if passthru else None, element, 1
        )
        value = Uniform(self.b.extract(one, 0))
        return value if other is None or passthru is not None else self._merge(mask, value, other, width)

    def _one(self, scalar: Val) -> Val:
        if scalar.constant is not None:
            return self.b.constant(scalar.element, scalar.constant, 1)
        vector = llvm_type(scalar.element, 1)
        return self.b.pure(scalar.element, 1, f"insertelement {vector} poison, {scalar}, i32 0", scalar)

    def _any(self, mask: Val) -> Val:
        return self.b.intrinsic("vector.reduce.or", ("i1", 0), (mask,), overloads=(("i1", mask.lanes),))

    def _load_contiguous(self, pointer: Val, mask: Lane | None, other: Lane | None, element: str, width: int) -> Val:
        if mask is None:
            return self.b.read(
                element, width, f"load {llvm_type(element, width)}, {pointer}, align {element_bytes(element)}", pointer
            )
        passthru = self.lanes.vector(other, width) if other is not None else None
        return self._masked_load(pointer, self.lanes.vector(mask, width), passthru, element, width)

    def _masked_load(self, pointer: Val, mask: Val, passthru: Val | None, element: str, width: int) -> Val:
        """From consecutive elements at one address, or from an address for each lane."""
        passthru = passthru or self.b.constant(element, 0, width)
        kind, suffix = ("gather", mangled("ptr", width)) if pointer.lanes else ("load", "p0")
        name, type_ = f"@llvm.masked.{kind}.{mangled(element, width)}.{suffix}", llvm_type(element, width)
        self.b.declare(f"declare {type_} {name}({pointer.type}, i32, {mask.type}, {type_})")
        operands = f"{pointer}, i32 {element_bytes(element)}, {mask}, {passthru}"
        return self.b.read(element, width, f"call {type_} {name}({operands})", pointer, mask, passthru)

    def _load_reversed(self, pointer: Val, mask: Lane | None, other: Lane | None, element: str, width: int) -> Val:
        order = range(width - 1, -1, -1)
        lowest = self.b.pure(
            "ptr", 0, f"getelementptr i8, {pointer}, i64 {-(width - 1) * element_bytes(element)}", pointer
        )
        mask, other = (
            None if lane is None else Vector(self.b.shuffle(self.lanes.vector(lane, width), order))
            for lane in (mask, other)
        )
        return self.b.shuffle(self._load_contiguous(lowest, mask, other, element, width), order)

    def _gather(self, pointer: Lane, mask: Lane | None, other: Lane | None, element: str, width: int) -> Val:
        mask_vector = self.b.constant("i1", True, width) if mask is None else self.lanes.vector(mask, width)
        passthru = None if other is None else self.lanes.vector(other, width)
        return self._masked_load(self.lanes.vector(pointer, width), mask_vector, passthru, element, width)

    # -- stores ------------------------------------------------------------------------------------------------------
    def store(self, pointer: Lane, value: Lane, mask: Lane | None, element: str, width: int) -> None:
        """Writes the lanes where `mask` is on. Lanes with one address write in their order."""
        if element == "i1":
            value, element = self._byte(value, width), "i8"
        if isinstance(mask, Uniform) and mask.val.constant is not None:
            if not mask.val.constant:
                return
            mask = None
        if is_whole(mask, width):
            mask = None
        size = element_bytes(element)
        if is_uniform(pointer) and (mask is None or isinstance(mask, Uniform)):
            scalar = (
                self.lanes.scalar(value)
                if is_uniform(value)
                else self.b.extract(self.lanes.vector(value, width), width - 1)
            )
            self._store_scalar(self.lanes.scalar(pointer), scalar, mask)
            return
        vector = self.lanes.vector(value, width)
        if isinstance(pointer, Address) and pointer.step == size:
            self._store_contiguous(pointer.pointer, vector, mask, width)
        elif isinstance(pointer, Address) and pointer.step == -size:
            order = range(width - 1, -1, -1)
            lowest = self.b.pure(
                "ptr", 0, f"getelementptr i8, {pointer.pointer}, i64 {-(width - 1) * size}", pointer.pointer
            )
            mirrored = None if mask is None else Vector(self.b.shuffle(self.lanes.vector(mask, width), order))
            self._store_contiguous(lowest, self.b.shuffle(vector, order), mirrored, width)
        else:
            mask_vector = self.b.constant("i1", True, width) if mask is None else self.lanes.vector(mask, width)
            self._masked_store(self.lanes.vector(pointer, width), vector, mask_vector, width)

    def _byte(self, value: Lane, width: int) -> Lane:
        if is_uniform(value):
            return Uniform(self.b.cast("zext", self.lanes.scalar(value), "i8"))
        return Vector(self.b.cast("zext", self.lanes.vector(value, width), "i8"))

    def _store_scalar(self, pointer: Val, value: Val, mask: Uniform | None) -> None:
        if mask is None:
            self.b.line(f"store {value}, {pointer}")
        else:
            self._masked_store(pointer, self._one(value), self._one(mask.val), 1)

    def _store_contiguous(self, pointer: Val, vector: Val, mask: Lane | None, width: int) -> None:
        if mask is None:
            self._store_all(pointer, vector)
        elif isinstance(mask, Uniform):
            self._store_if(mask.val, pointer, vector)
        else:
            self._masked_store(pointer, vector, self.lanes.vector(mask, width), width)

    def _store_all(self, pointer: Val, vector: Val) -> None:
        self.b.line(f"store {vector}, {pointer}, align {element_bytes(vector.element)}")

    def _store_if(self, condition: Val, pointer: Val, vector: Val) -> None:
        """Under a branch, as rows are nearly always all on or all off: a masked store can be ten times as slow."""
        on, after = self.b.fresh("on"), self.b.fresh("after")
        self.b.line(f"br i1 {condition.text}, label %{on}, label %{after}")
        self.b.mark(on)
        self._store_all(pointer, vector)
        self.b.line(f"br label %{after}")
        self.b.mark(after)

    def _masked_store(self, pointer: Val, vector: Val, mask: Val, width: int) -> None:
        """To consecutive elements at one address, or to an address for each lane."""
        if not pointer.lanes and LLVM_TYPES[vector.element] in NARROWED:
            vector = self._apart_from_its_conversion(vector)
        kind, suffix = ("scatter", mangled("ptr", width)) if pointer.lanes else ("store", "p0")
        name = f"@llvm.masked.{kind}.{mangled(vector.element, width)}.{suffix}"
        self.b.declare(f"declare void {name}({vector.type}, {pointer.type}, i32, {mask.type})")
        self.b.line(f"call void {name}({vector}, {pointer}, i32 {element_bytes(vector.element)}, {mask})")

    def _apart_from_its_conversion(self, vector: Val) -> Val:
        """The same integers, by a fence that costs no instruction.

        LLVM merges a conversion to narrower integers and the masked store of them. With AVX-512, where a mask turns out
        to have a single lane, LLVM 22 then stores that lane before its conversion, as wide as it was: over neighbours.
        """
        width = vector.lanes
        bits = 8 * element_bytes(vector.element)
        if missing := -width % (32 // bits):  # the fence wants whole floating point numbers
            vector = self.b.shuffle(vector, [*range(width), *[-1] * missing])
        floats = vector.lanes * bits // 32
        as_floats = self.b.pure("f32", floats, f"bitcast {vector} to {llvm_type('f32', floats)}", vector)
        fenced = self.b.intrinsic("arithmetic.fence", ("f32", floats), [as_floats])
        kept = self.b.pure(
            vector.element, vector.lanes, f"bitcast {fenced} to {llvm_type(vector.element, vector.lanes)}", fenced
        )
        return kept if vector.lanes == width else self.b.shuffle(kept, range(width))

    # -- scratch -----------------------------------------------------------------------------------------------------
    def buffer_address(self, buffer: Buffer, positions: list[Lane], width: int) -> Lane:
        """The address of the element at `positions` (one an axis)."""
        total: Lane = Index(self.b.constant("i64", 0), 0, "i64")
        for position, stride, extent in zip(positions, buffer.strides, buffer.shape):
            if extent == 1:
                continue
            factor = Index(self.b.constant("i64", stride), 0, "i64")
            term = position if stride == 1 else self.integers.binary("mul", position, factor, "i64", width)
            total = self.integers.binary("add", total, term, "i64", width)
        return self.address(self.scratch_pointer(buffer.offset), total, element_bytes(held(buffer.element)), width)

    def scratch_pointer(self, offset: int) -> Val:
        scratch = Val("%scratch", "ptr")
        return scratch if offset == 0 else self.b.pure("ptr", 0, f"getelementptr i8, {scratch}, i64 {offset}", scratch)

    def address(self, base: Val, index: Lane, size: int, width: int) -> Lane:
        """`base` moved by `index` elements of `size` bytes."""
        known = self.lanes.index(index)
        if known is not None:
            pointer = self.scalars.pointer(base, known.first, size)
            return Address(pointer, known.step * size) if known.step else Uniform(pointer)
        offsets = self.lanes.vector(index, width)
        unit = {1: "i8", 2: "i16", 4: "i32", 8: "i64"}[size]
        return Vector(self.b.pure("ptr", width, f"getelementptr {unit}, {base}, {offsets}", base, offsets))
