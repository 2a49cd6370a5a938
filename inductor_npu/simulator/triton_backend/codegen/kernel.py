"""From a TTIR kernel to one LLVM function with the runtime's kernel ABI (see docs/architecture.md, section 4)."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..ttir.ir import Block, Function, Module, Op, ScalarType, TensorType, Value
from . import control_flow, counters, solo
from .atomics import adds_plainly, emit_scalar_atomic
from .builder import Builder, Val
from .checks import Access, Checks
from .effects import ATOMICS, Bases
from .elementwise import Elementwise
from .errors import UnsupportedOperation
from .frame import Frame
from .lanes import Lane, Uniform
from .memory import Buffer, Memory, held
from .nest import Nest
from .plan import REGIONS, SOLO, Group, Planner, Root, Step, is_tensor, is_virtual
from .rewrite import rewrite
from .strides import Strides
from .tables import Tables
from .transpose import turn_crosswise_tiles
from .types import BITS, FLOATS, LLVM_TYPES, element_bytes, element_of, is_float, llvm_type, shape_of

SCRATCH_ALIGNMENT = 64
DEEPEST_CHAIN = 10_000  # Python calls: values are evaluated recursively, three calls an operation


@dataclass(frozen=True)
class CodegenOptions:
    """What code depends on besides the kernel. `vector_bits` is the width of the host's vector registers;
    `distinct_arguments` says that no two arguments point at the same memory, unless it is only read;
    `record` adds counters (see `counters.py`), `checked` checks (see `checks.py`); `compresses` says that the host
    moves lanes together by an instruction that LLVM knows; `exclusive` that nobody else writes, while the kernel runs,
    what it adds to by atomics; `grid_limit` is the largest number
    of programs of a launch.
    """

    enable_fp_fusion: bool = True
    distinct_arguments: bool = False
    record: bool = False
    checked: bool = False
    vector_bits: int = 512
    registers: int = 32
    compresses: bool = False
    exclusive: bool = False
    grid_limit: int = (1 << 31) - 1


@dataclass(frozen=True)
class GeneratedKernel:
    """The text of an LLVM module with the function `entry`. Each running thread needs `scratch_bytes` of its own;
    `work_per_program` estimates the elements that a program touches (0: all programs run on one thread); `messages[i]`
    belongs to device_assert number i+1. `accesses` are those of the checked variant, by the number that its checks
    pass.
    """

    llvm_ir: str
    entry: str
    scratch_bytes: int
    work_per_program: int
    messages: list[str] = field(default_factory=list)
    accesses: list[Access] = field(default_factory=list)


def generate_kernel(module: Module, options: CodegenOptions) -> GeneratedKernel:
    """LLVM IR for the module's kernel. Raises UnsupportedOperation, which names operation and source line."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, DEEPEST_CHAIN))
    try:
        return KernelGenerator(module.kernel, options).generate()
    finally:
        sys.setrecursionlimit(limit)


def _refuse_unknown_elements(function: Function) -> None:
    """Raises UnsupportedOperation for the first operation whose result has numbers in a format that is not known."""
    for op in function.body.walk():
        for result in op.results:
            type_ = result.type.element if isinstance(result.type, TensorType) else result.type
            if isinstance(type_, ScalarType) and type_.name not in LLVM_TYPES:
                known = ", ".join(sorted(FLOATS))
                raise UnsupportedOperation(
                    op, f"numbers in the format {type_.name} are not supported; convert them to one of {known} first"
                )


class KernelGenerator:
    """The state of generating one kernel: where each value is, and the scratch in use."""

    def __init__(self, function: Function, options: CodegenOptions) -> None:
        self.function, self.options = function, options
        self.b = Builder(options.record)
        self.elementwise = Elementwise(self.b, options.enable_fp_fusion)
        self.memory = Memory(self.b, self.elementwise.lanes, self.elementwise.integers)
        self.bases, self.strides = Bases(function.body.arguments, options.distinct_arguments), Strides()
        self.tables = Tables()
        self.planner = Planner(self.bases, self.strides, self.tables)
        self.env: dict[Value, Lane | Buffer] = {}
        self.scratch_bytes = 0
        self.work = 0
        self.loop_depth = 0
        self.messages: list[str] = []
        self.uses: Counter[Value] = Counter()
        self.adds_plainly = False  # what are atomics is done by one thread, without

    # -- the function ------------------------------------------------------------------------------------------------
    def generate(self) -> GeneratedKernel:
        _refuse_unknown_elements(self.function)
        observed = self.options.record or self.options.checked
        rewrite(self.function, observed)
        self.uses = Counter(v for op in self.function.body.walk() for v in op.operands)
        self.adds_plainly = self.options.exclusive and not observed and adds_plainly(self.function, self.uses)
        self._arguments()
        if self.options.checked:
            self.memory.checks = self._checks()
        entry = list(self.b.sinks[0])
        self.b.sinks[0].clear()
        self._program_ids()
        self.block(self.function.body)
        entry_name = f"npu_{self.function.name}"
        return GeneratedKernel(
            self._module(entry_name, entry),
            entry_name,
            self.scratch_bytes,
            0 if self.adds_plainly else max(1, self.work),
            self.messages,
            self.memory.checks.accesses if self.memory.checks is not None else [],
        )

    def _arguments(self) -> None:
        """Loads the arguments from their 8-byte slots."""
        attrs = self.function.argument_attrs or [{}] * len(self.function.body.arguments)
        for slot, (argument, facts) in enumerate(zip(self.function.body.arguments, attrs)):
            element = element_of(argument.type)
            address = f"%args.{slot}"
            self.b.line(f"{address} = getelementptr i64, ptr %args, i64 {slot}")
            memory_element = held(element)
            value = self.b.read(memory_element, 0, f"load {llvm_type(memory_element, 0)}, ptr {address}")
            if element == "i1":
                value = self.b.cast("trunc", value, "i1")
            divisor = facts.get("tt.divisibility")
            if isinstance(divisor, int) and element in ("i32", "i64"):
                value.divisor = divisor
            self.env[argument] = Uniform(value)

    def _checks(self) -> Checks:
        arguments = {argument: self.scalar(argument) for argument in self.function.body.arguments}
        ordered = any(op.name in ATOMICS and self.uses[op.result] for op in self.function.body.walk())
        return Checks(self.b, self.elementwise.lanes, self.bases, arguments, ordered)

    def _program_ids(self) -> None:
        self.program_ids, self.grid = [], []
        for axis in "xyz":
            program = Val(f"%program.{axis}", "i32")
            self.program_ids.append(program.known(0, self.options.grid_limit - 1))
            self.grid.append(Val(f"%grid.{axis}", "i32").known(1, self.options.grid_limit))

    def _module(self, name: str, entry: Sequence[str]) -> str:
        library = self.elementwise.math.library
        declared = frozenset(self.b.declarations)
        globals_ = "\n".join(f"{symbol} = {text}" for text, symbol in self.b.globals.items())
        return "\n".join(
            [
                globals_,
                *self.b.declarations,
                library.text(declared),
                (
                    f"define i32 @{name}(ptr noalias readonly %args, i64 %begin, i64 %end, ptr noalias readonly %grid, "
                    "ptr noalias %scratch, ptr noalias %context) nounwind {"
                ),
                "entry:",
                *(counters.definitions() if self.options.record else ()),
                *(self.memory.checks.definitions() if self.memory.checks is not None else ()),
                *entry,
                _PROLOGUE,
                self.b.text(),
                _EPILOGUE,
                *(counters.report("total") if self.options.record else ()),
                "  ret i32 0",
                "}",
            ]
        )

    # -- blocks and steps --------------------------------------------------------------------------------------------
    def block(self, block: Block, tail: Sequence[Root] = (), separate_tail: bool = False) -> Op | None:
        """Writes a block, then the roots in `tail`; returns its terminator, which is the caller's to write."""
        ops = list(block.ops)
        terminator = None
        if ops and ops[-1].name in ("scf.yield", "scf.condition", "tt.return"):
            terminator = ops.pop()
        self.steps(self.planner.plan(ops, tail, separate_tail))
        return terminator

    def keep(self, roots: Sequence[Root]) -> None:
        """Writes loop nests that put values into scratch."""
        if roots:
            self.steps(self.planner.plan([], roots))

    def steps(self, steps: Sequence[Step]) -> None:
        for step in steps:
            if step.group is not None:
                step.group.roots = [r for r in step.group.roots if not self._in_place(r)]
                if not step.group.roots:
                    continue
                self.work += math.prod(step.group.shape) * 8 ** min(self.loop_depth, 2)
                step.group.vector_axis = self.planner.vector_axis(step.group, self.env)
                turn_crosswise_tiles(self, step.group)
                Nest(self, step.group).emit()
            elif step.op.name in REGIONS:
                self._region(step.op)
            elif step.op.name in SOLO:
                solo.emit(self, step.op)
            else:
                self.statement(step.op)

    def _region(self, op: Op) -> None:
        """An operation with regions. Where values are inside of it does not hold after it: it may not have run."""
        self.loop_depth += 1
        outside = dict(self.env)
        control_flow.emit(self, op)
        results = {r: self.env[r] for r in op.results}
        self.env = {**outside, **results}
        self.loop_depth -= 1

    def _in_place(self, root: Root) -> bool:
        """Whether a value to be written to a buffer lies in it already."""
        return root.buffer is not None and self.env.get(root.value) is root.buffer

    def statement(self, op: Op) -> None:
        """An operation on scalars."""
        name = op.name
        if name == "tt.get_program_id":
            self.env[op.result] = Uniform(self.program_ids[op.attrs["axis"]])
        elif name == "tt.get_num_programs":
            self.env[op.result] = Uniform(self.grid[op.attrs["axis"]])
        elif name == "tt.load":
            pointer, *rest = (self.lane(o) for o in op.operands)
            mask, other = [*rest, None, None][:2]
            self.env[op.result] = self.memory.device_load(op, pointer, mask, other, element_of(op.result.type), 0)
        elif name == "tt.store":
            pointer, value, *rest = (self.lane(o) for o in op.operands)
            mask = rest[0] if rest else None
            self.memory.device_store(op, pointer, value, mask, element_of(op.operands[1].type), 0)
        elif name in ("tt.atomic_rmw", "tt.atomic_cas"):
            emit_scalar_atomic(self, op)
        elif name in ("tt.make_tensor_ptr", "tt.advance"):
            raise UnsupportedOperation(op, "block pointers must be rewritten to plain pointers before code generation")
        elif name == "llvm.intr.assume":
            return
        elif not op.results:
            raise UnsupportedOperation(op, "this operation is not supported")
        else:
            lane = self.elementwise.emit(op, [self.lane(o) for o in op.operands], 0)
            self.env.update(zip(op.results, lane if isinstance(lane, tuple) else (lane,)))
            if _counts_programs(op):
                self.scalar(op.result).known(0, self.options.grid_limit - 1)

    def lane(self, value: Value) -> Lane:
        """A scalar that was written before."""
        lane = self.env[value]
        assert not isinstance(lane, Buffer), "scalars are never kept in scratch"
        return lane

    def scalar(self, value: Value) -> Val:
        """A scalar, or the only element of a tensor of one."""
        shape = shape_of(value.type)
        frame = Frame(self, 0)
        lane = frame.evaluate(value, (frame.maps.zero,) * len(shape))
        return self.elementwise.lanes.scalar(lane)

    # -- scratch -----------------------------------------------------------------------------------------------------
    def reserve(self, size: int) -> int:
        """Bytes of scratch, at an aligned offset."""
        offset = self.scratch_bytes
        self.scratch_bytes += -(-size // SCRATCH_ALIGNMENT) * SCRATCH_ALIGNMENT
        return offset

    def allocate(self, shape: tuple[int, ...], element: str, strides: tuple[int, ...]) -> Buffer:
        return Buffer(self.reserve(math.prod(shape) * element_bytes(held(element))), shape, strides, element)

    # -- questions ---------------------------------------------------------------------------------------------------
    def elements_in(self, group: Group) -> set[str]:
        """The element types of the numbers that a nest loads, stores and computes with; index arithmetic left out."""
        found: set[str] = set()
        seen: set[Value] = set()
        stack = [(v, True) for root in group.roots for v in root.operands]
        for root in group.roots:
            if root.op is None or root.op.name in ("tt.reduce", "tt.scan"):
                found.update(element_of(v.type) for v in root.operands)
            else:
                found.add(element_of(root.op.operands[1].type))
        while stack:
            value, _ = stack.pop()
            if value in seen or not is_tensor(value) or self.tables.is_known(value):
                continue
            seen.add(value)
            element = element_of(value.type)
            kept = self.env.get(value)
            loaded = value.owner is not None and value.owner.name == "tt.load"
            if is_float(element) or loaded or isinstance(kept, Buffer):
                found.add(element)
            if kept is None and value.owner is not None and is_virtual(value.owner):
                stack += [(o, True) for o in value.owner.operands]
        return {e for e in found if BITS[e] > 1 and e != "ptr"} or {"i8"}


def _counts_programs(op: Op) -> bool:
    """Whether this is the product of a program id and the number of programs along another axis: less than there are
    programs in all.
    """
    owners = [o.owner for o in op.operands]
    if op.name != "arith.muli" or {o.name for o in owners if o is not None} != {
        "tt.get_program_id",
        "tt.get_num_programs",
    }:
        return False
    return owners[0].attrs["axis"] != owners[1].attrs["axis"]


_PROLOGUE = """\
  %grid.x = load i32, ptr %grid
  %grid.y.at = getelementptr i32, ptr %grid, i64 1
  %grid.y = load i32, ptr %grid.y.at
  %grid.z.at = getelementptr i32, ptr %grid, i64 2
  %grid.z = load i32, ptr %grid.z.at
  %empty = icmp sge i64 %begin, %end
  br i1 %empty, label %finished, label %first
first:
  %grid.x.wide = zext i32 %grid.x to i64
  %grid.y.wide = zext i32 %grid.y to i64
  %begin.x = urem i64 %begin, %grid.x.wide
  %begin.yz = udiv i64 %begin, %grid.x.wide
  %begin.y = urem i64 %begin.yz, %grid.y.wide
  %begin.z = udiv i64 %begin.yz, %grid.y.wide
  %first.x = trunc i64 %begin.x to i32
  %first.y = trunc i64 %begin.y to i32
  %first.z = trunc i64 %begin.z to i32
  br label %program
program:
  %number = phi i64 [ %begin, %first ], [ %number.next, %next ]
  %program.x = phi i32 [ %first.x, %first ], [ %program.x.next, %next ]
  %program.y = phi i32 [ %first.y, %first ], [ %program.y.next, %next ]
  %program.z = phi i32 [ %first.z, %first ], [ %program.z.next, %next ]
  br label %body
body:"""

_EPILOGUE = """\
  br label %next
next:
  %number.next = add nsw i64 %number, 1
  %x.up = add nuw i32 %program.x, 1
  %x.wraps = icmp eq i32 %x.up, %grid.x
  %program.x.next = select i1 %x.wraps, i32 0, i32 %x.up
  %y.carry = zext i1 %x.wraps to i32
  %y.up = add nuw i32 %program.y, %y.carry
  %y.wraps = icmp eq i32 %y.up, %grid.y
  %program.y.next = select i1 %y.wraps, i32 0, i32 %y.up
  %z.carry = zext i1 %y.wraps to i32
  %program.z.next = add nuw i32 %program.z, %z.carry
  %more = icmp slt i64 %number.next, %end
  br i1 %more, label %program, label %finished
finished:"""

__all__ = [
    "CodegenOptions",
    "GeneratedKernel",
    "KernelGenerator",
    "UnsupportedOperation",
    "generate_kernel",
]
