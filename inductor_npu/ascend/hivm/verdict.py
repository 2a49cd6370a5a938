"""Whether a kernel is vector code: a walk over the final IR that finds what moves single elements.

======= =========================================================================================================
S1      one element read or written by the scalar core, outside of loops over elements: a scalar argument, a
        reduced value. Costs a synchronisation each. Counted, no verdict.
SL      a loop over the elements of a tile that reads or writes them one by one: 5 to 250 times slower
EL      a transfer in bursts of single elements or of less than 32 bytes, or vector work on elements that lie a
        block apart: 8 times the space, an eighth of the speed
HL      a library function that loops over single elements inside
======= =========================================================================================================
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from . import access
from .access import BLOCK
from .callees import Callee, Pipe, find, is_transfer, transfer_rows
from .guards import buffers
from .ir import Function, Location, Operation, Region
from .machine import Buffer, Environment, Known, execute, is_understood, number, of_type

# So few elements in one library call are a cost like S1's, and no loop.
FEW = 8
# So many single elements that one statement moves are a loop over a tile that the compiler unrolled.
MANY = 64
_SPACES = {"ub": "Unified Buffer", "gm": "device memory", "cbuf": "L1", "cc": "L0C", "": "memory"}
# Operations without results that the walk has nothing to ask of.
_INERT_PREFIXES = (
    "hivm.hir.set_",
    "hivm.hir.wait_",
    "hivm.hir.pipe_",
    "hivm.hir.sync_",
    "hivm.hir.get_",
    "annotation.",
)
_INERT = ("return", "func.return", "scf.yield", "scf.condition", "memref.store", "memref.load", "func.call")


@dataclass(frozen=True)
class Finding:
    """Something that a kernel does element by element. `elements` is for one tile; None if the IR does not say."""

    kind: str
    what: str
    elements: int | None


@dataclass(slots=True, eq=False)
class _Loop:
    operation: Operation
    trips: int | None
    moves_tiles: bool = False  # whether something inside works on more than one element


@dataclass(slots=True, eq=False)
class _Access:
    """One memref.load or memref.store, with the loops around it from the outermost."""

    operation: Operation
    loops: tuple[_Loop, ...]
    buffer: Buffer | None


@dataclass
class Walk:
    """All of a function seen once, with what is known of every value whichever way the program goes."""

    function: Function
    environment: Environment
    findings: list[Finding] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    reads: set[int] = field(default_factory=set)
    writes: set[int] = field(default_factory=set)
    _accesses: list[_Access] = field(default_factory=list)

    def run(self) -> Walk:
        self._region(self.function.body, ())
        self.findings += _scalar_findings(self._accesses)
        self.findings = list(dict.fromkeys(self.findings))
        self.assumptions = list(dict.fromkeys(self.assumptions))
        return self

    # ---- control flow ----

    def _region(self, region: Region, loops: tuple[_Loop, ...]) -> list[Known]:
        """Walks a region; returns what its terminator passes on."""
        for operation in region.operations:
            if operation.name == "scf.for":
                self._for(operation, loops)
            elif operation.name == "scf.while":
                self._while(operation, loops)
            elif operation.name == "scf.if":
                self._if(operation, loops)
            elif operation.name in ("scf.yield", "scf.condition"):
                values = operation.operands[operation.name == "scf.condition" :]
                return [self.environment.get(value) for value in values]
            elif operation.name == "func.call":
                self._call(operation, loops)
            elif operation.name in ("memref.load", "memref.store"):
                self._access(operation, loops)
            else:
                self._other(operation)
        return []

    def _for(self, operation: Operation, loops: tuple[_Loop, ...]) -> None:
        lower, upper, step = (number(self.environment, value) for value in operation.operands[:3])
        trips = None
        if lower is not None and upper is not None and step:
            trips = max(0, -(-(upper - lower) // step))
        variable, *carried = operation.regions[0].arguments
        self.environment[variable] = lower if trips == 1 else None
        for argument, initial in zip(carried, operation.operands[3:]):
            self.environment[argument] = _any_iteration(self.environment.get(initial))
        self._region(operation.regions[0], (*loops, _Loop(operation, trips)))
        for result, argument in zip(operation.results, carried):
            self.environment[result] = self.environment[argument]

    def _while(self, operation: Operation, loops: tuple[_Loop, ...]) -> None:
        before, after = operation.regions
        inside = (*loops, _Loop(operation, None))
        for argument, initial in zip(before.arguments, operation.operands):
            self.environment[argument] = _any_iteration(self.environment.get(initial))
        passed = self._region(before, inside)
        for argument, value in zip(after.arguments, passed):
            self.environment[argument] = value
        self._region(after, inside)
        for result, value in zip(operation.results, passed):
            self.environment[result] = value

    def _if(self, operation: Operation, loops: tuple[_Loop, ...]) -> None:
        condition = number(self.environment, operation.operands[0])
        yes = self._region(operation.regions[0], loops)
        no = self._region(operation.regions[1], loops) if len(operation.regions) > 1 else []
        for result, a, b in zip(operation.results, yes, no):
            self.environment[result] = a if condition == 1 or a == b else b if condition == 0 else _either(a, b)

    # ---- operations ----

    def _other(self, operation: Operation) -> None:
        execute(operation, self.environment)
        inert = operation.name in _INERT or operation.name.startswith(_INERT_PREFIXES)
        if not inert and not is_understood(operation):
            self.assumptions.append(
                f"operation {operation.name} is not known (line {operation.line} of the IR): taken to cost nothing"
            )

    def _access(self, operation: Operation, loops: tuple[_Loop, ...]) -> None:
        execute(operation, self.environment)
        buffer = self.environment.get(operation.attributes["memref"])  # type: ignore[call-overload]
        self._touch(buffer, writes=operation.name == "memref.store")
        self._accesses.append(_Access(operation, loops, buffer if isinstance(buffer, Buffer) else None))

    def _call(self, operation: Operation, loops: tuple[_Loop, ...]) -> None:
        execute(operation, self.environment)
        name = str(operation.attributes["callee"])
        operands = [self.environment.get(value) for value in operation.operands]
        callee = find(name)
        views = buffers(operands)
        if any(buffer.elements is None or buffer.elements > 1 for buffer in views) and not _is_bookkeeping(name, views):
            for loop in loops:
                loop.moves_tiles = True
        if callee is None:
            self.assumptions.append(f"library function {name} is not known: taken to be vector code that costs nothing")
            for buffer in views:
                self._touch(buffer, writes=True)
                self._touch(buffer, writes=False)
            return
        for position, buffer in enumerate(views):
            self._touch(buffer, writes=_writes(callee, position))
        where = _where(operation.location)
        if callee.hidden is not None and (hidden := callee.hidden(name, operands)) is not None:
            elements, reason = hidden
            kind = "S1" if elements is not None and elements <= FEW else "HL"
            self.findings.append(Finding(kind, f"{where}{name} works element by element: {reason}", elements))
        elif is_transfer(callee):
            self._transfer(name, operands, where)
        elif callee.pipe is Pipe.VECTOR:
            self._vector(name, views, where)

    def _transfer(self, name: str, operands: list[Known], where: str) -> None:
        walked = transfer_rows(operands, tile=True)
        if walked is None:
            return
        count, burst, known = walked
        if count <= 1 or burst >= BLOCK:
            return
        views = buffers(operands)
        direction = "load" if views[0].space == "gm" else "store"
        elements = views[0].elements
        if not known:
            self.assumptions.append(f"{where}a stride of {name} is known only at run time: taken not to be 1")
        self.findings.append(Finding("EL", f"{where}{direction} in bursts of {burst} bytes", elements))

    def _vector(self, name: str, views: list[Buffer], where: str) -> None:
        for buffer in views:
            if (buffer.elements or 0) <= 1 or buffer.element_bits == 1:
                continue
            walked = access.rows([buffer], tile=True)
            if walked is None or walked.count <= 1 or walked.bytes(buffer.element_bits) >= BLOCK:
                continue
            what = f"{where}{name} on rows of {walked.bytes(buffer.element_bits)} bytes, each in blocks of its own"
            self.findings.append(Finding("EL", what, buffer.elements))
            return

    def _touch(self, known: Known, writes: bool) -> None:
        if isinstance(known, Buffer) and known.space == "gm" and known.root >= 0:
            (self.writes if writes else self.reads).add(known.root)


def _is_bookkeeping(name: str, views: list[Buffer]) -> bool:
    """Whether a call only hands a tile from one iteration to the next: the copy of a carried tile, of which one element
    is changed then. Its place is not known in any iteration.
    """
    return name.startswith("copy_ubuf_to_ubuf") and bool(views) and views[0].offset is None


def _writes(callee: Callee, position: int) -> bool:
    """Whether buffer number `position` of a call, if it is in device memory, is written."""
    return callee.pipe in (Pipe.MTE3, Pipe.FIX) and position == 1


def _any_iteration(known: Known) -> Known:
    """What is known of a carried value in every iteration: of a buffer, all but where it begins."""
    return replace(known, offset=None) if isinstance(known, Buffer) else None


def _either(a: Known, b: Known) -> Known:
    if isinstance(a, Buffer) and isinstance(b, Buffer):
        same = a.shape == b.shape and a.strides == b.strides
        return replace(a, offset=None, root=a.root if a.root == b.root else -1) if same else None
    return None


# ---- accesses of single elements ----


def _scalar_findings(accesses: list[_Access]) -> Iterator[Finding]:
    """S1 and SL: an access counts as a loop over elements if nothing in the loop around it works on a tile."""
    loops: dict[Operation, list[_Access]] = {}
    singles: dict[str, int] = {}
    for found in accesses:
        around = _element_loops(found.loops)
        if around:
            loops.setdefault(around[0].operation, []).append(found)
            continue
        space = _SPACES.get(found.buffer.space if found.buffer else "", "memory")
        verb = "read from" if found.operation.name == "memref.load" else "written to"
        per = " in each iteration of a loop" if any(loop.trips != 1 for loop in found.loops) else ""
        what = f"{_where(found.operation.location)}one element {verb} {space} by the scalar core{per}"
        singles[what] = singles.get(what, 0) + 1
    for what, count in singles.items():
        if count < MANY:
            yield Finding("S1", what, count)
        else:
            yield Finding("SL", what.replace("one element", "single elements, one after the other,"), count)
    for inside in loops.values():
        yield _loop_finding(inside)


def _element_loops(loops: tuple[_Loop, ...]) -> list[_Loop]:
    """The innermost loops, from outside, that work on no tile: empty if they go round once altogether."""
    found: list[_Loop] = []
    for loop in reversed(loops):
        if loop.moves_tiles:
            break
        found.insert(0, loop)
    return [] if all(loop.trips == 1 for loop in found) else found


def _loop_finding(inside: list[_Access]) -> Finding:
    chain = max((_element_loops(found.loops) for found in inside), key=len)
    trips = [loop.trips for loop in chain]
    elements = None if None in trips else prod(trip or 0 for trip in trips)
    work = {operation.name for operation in chain[0].operation.walk() if operation.name.startswith(("arith.", "math."))}
    work = {name.split(".")[1] for name in work} - {"index_cast", "constant", "select", "extsi", "trunci"}
    types = sorted({f"{found.buffer.element}" for found in inside if found.buffer})
    spaces = sorted({_SPACES.get(found.buffer.space, "memory") for found in inside if found.buffer})
    doing = f" ({', '.join(sorted(work))})" if work else ""
    location = next((found.operation.location for found in inside if found.operation.location), None)
    what = f"{_where(location)}loop over single elements of {' and '.join(types)} in {' and '.join(spaces)}{doing}"
    return Finding("SL", what, elements)


def _where(location: Location | None) -> str:
    return f"{location}: " if location else ""


def arguments_environment(function: Function, scalars: dict[int, int | float]) -> Environment:
    """What is known of a function's arguments: of memory, which it is; of numbers, what `scalars` says."""
    environment: Environment = {}
    for index, argument in enumerate(function.arguments):
        if isinstance(argument.type, str):
            environment[argument] = scalars.get(index)
        else:
            environment[argument] = of_type(argument.type, index, address=None)
    return environment
