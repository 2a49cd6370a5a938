"""Estimates the cost of a launch: executes the final IR's scalar part for the launch's programs, and sums the cost of
its operations.

It does not execute every iteration and program. Of a loop's iterations, and of a grid's programs, it executes those
that can differ (the first, the last, and midpoints between until they agree or grow evenly), and assumes that the
others cost what their neighbours cost.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import product

from inductor_npu.target import NpuTarget

from .callees import find
from .cube import CubeFacts
from .ir import Function, Operation, Region
from .machine import Buffer, Environment, Known, execute, merge, number
from .timing import Side, Touched, launch_time
from .verdict import arguments_environment
from .work import NOTHING, PIPES, VALUES, Rates, Work, of_access, of_call, rates

FEW_PROGRAMS = 64  # that are executed one by one
FEW_ITERATIONS = 6
MOST_SAMPLES = 64  # of one loop
MOST_WHILE = 4096  # iterations of a while loop

Vector = tuple[float, ...]  # as Work.values
_ZERO: Vector = NOTHING.values()
_IDLE = ("hivm.hir.set_flag", "hivm.hir.wait_flag", "hivm.hir.pipe_barrier", "hivm.hir.set_mask_norm")


@dataclass(frozen=True)
class LaunchCost:
    """Totals of a launch; `busiest` are the cycles of each pipe on the core that takes longest, `time` what a kernel
    with dots takes in all. `exact` is False where bytes depend on data.
    """

    busiest: dict[str, float]
    time: float | None
    read: int
    written: int
    instructions: int
    exact: bool
    assumptions: tuple[str, ...]


def launch_cost(
    functions: list[Function],
    target: NpuTarget,
    grid: tuple[int, int, int],
    scalars: Callable[[Function], dict[int, int | float]],
    cube: CubeFacts | None = None,
    touched: Callable[[Function], Touched] | None = None,
) -> LaunchCost:
    """The cost of one launch of `functions`: one function, or the cube's and the vector cores' part of a mixed
    kernel, which `cube` describes; `touched` says how many bytes of arguments a function reads and writes.
    """
    cubes = any(function.core == "AIC" for function in functions)
    cores = target.cube_cores if cubes else target.vector_cores
    assumptions: dict[str, None] = {}
    busiest = dict.fromkeys(PIPES, 0.0)
    totals = list(_ZERO)
    exact = True
    sides: dict[str, Side] = {}
    for function in functions:
        sharing = target.cube_cores if function.core == "AIC" else target.vector_cores
        machine = _Machine(function, rates(target, sharing), scalars(function))
        halves = 2 if cubes and function.core == "AIV" else 1
        parts = [_over_grid(machine, grid, cores, half) for half in range(halves)]
        for total, _ in parts:
            totals = [a + b for a, b in zip(totals, total)]
        heaviest = max((heavy for _, heavy in parts), key=lambda heavy: max(heavy[: len(PIPES)]))
        work = dict(zip(VALUES, heaviest))
        if cube is not None and touched is not None:
            own = {name: float(sum(values)) for name, values in zip(VALUES, zip(*(total for total, _ in parts)))}
            sides[function.core] = Side(work, own, touched(function))
        else:
            busiest = {pipe: max(busiest[pipe], work[pipe]) for pipe in PIPES}
        assumptions.update(dict.fromkeys(machine.assumptions))
        exact = exact and machine.exact
    if target.memory_bandwidth is None:
        assumptions[f"the memory bandwidth of {target.name} is not known: no cycles are given"] = None
    if len(functions) > 1:
        assumptions[
            "a mixed kernel: each pipe's cycles are those of the core, cube or vector, that has more of them"
        ] = None
    time = None
    if cube is not None and sides:
        time = launch_time(sides, cube, target, assumptions)
        busiest = {pipe: max(side.work[pipe] for side in sides.values()) for pipe in PIPES}
    sums = dict(zip(VALUES, totals))
    instructions = round(sums["instructions"])
    return LaunchCost(busiest, time, int(sums["read"]), int(sums["written"]), instructions, exact, tuple(assumptions))


def _over_grid(machine: _Machine, grid: tuple[int, int, int], cores: int, half: int) -> tuple[Vector, Vector]:
    """Totals of all programs, and of the core that has most to do; programs go to the cores in turn."""
    known: dict[tuple[int, int, int], Vector] = {}

    def cost(x: int, y: int, z: int) -> Vector:
        if (x, y, z) not in known:
            known[x, y, z] = machine.program((x * grid[1] + y) * grid[2] + z, half)
        return known[x, y, z]

    programs = grid[0] * grid[1] * grid[2]
    if programs > FEW_PROGRAMS:
        typical = [_representatives(size) for size in grid]
        for x, y, z in _probes(grid):
            if cost(x, y, z) != cost(typical[0](x), typical[1](y), typical[2](z)):
                machine.assumptions["programs differ; the launch is estimated from some of them"] = None
                break
    loads: dict[int, list[float]] = {}
    total = list(_ZERO)
    for index, (x, y, z) in enumerate(product(*(range(size) for size in grid))):
        if programs > FEW_PROGRAMS:
            x, y, z = typical[0](x), typical[1](y), typical[2](z)
        values = known[x, y, z] if (x, y, z) in known else cost(x, y, z)
        core = loads.setdefault(index % cores, list(_ZERO))
        for position, value in enumerate(values):
            core[position] += value
            total[position] += value
    heaviest = max(loads.values(), key=lambda load: max(load[: len(PIPES)]), default=list(_ZERO))
    return tuple(total), tuple(heaviest)


def _representatives(size: int) -> Callable[[int], int]:
    """Which coordinate stands for a coordinate: the first, the last, and one for all between."""
    return lambda index: index if index in (0, size - 1) else size // 2


def _probes(grid: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    quarters = [sorted({size // 4, (3 * size) // 4}) for size in grid]
    return [(x, y, z) for x, y, z in product(*quarters)]


@dataclass
class _Machine:
    """Executes a function for one program after another, and adds up what its operations cost."""

    function: Function
    rates: Rates
    scalars: dict[int, int | float]
    assumptions: dict[str, None] = field(default_factory=dict)
    exact: bool = True
    _total: list[float] = field(default_factory=lambda: list(_ZERO))
    _calls: dict[object, Work] = field(default_factory=dict)
    _program: int = 0
    _half: int = 0

    def program(self, index: int, half: int) -> Vector:
        """What program number `index` of the flattened grid costs; `half` is the vector core's number in a mixed
        kernel.
        """
        self._total, self._program, self._half = list(_ZERO), index, half
        environment = arguments_environment(self.function, self.scalars)
        self._region(self.function.body, environment)
        return tuple(self._total)

    def _add(self, work: Work) -> None:
        self.exact = self.exact and work.exact
        self._add_values(work.values())

    def _add_values(self, values: Vector) -> None:
        for position, value in enumerate(values):
            self._total[position] += value

    # ---- control flow ----

    def _region(self, region: Region, environment: Environment) -> list[Known]:
        for operation in region.operations:
            name = operation.name
            if name in _IDLE:
                continue
            if name == "func.call":
                self._call(operation, environment)
            elif name == "scf.for":
                self._for(operation, environment)
            elif name == "scf.if":
                self._if(operation, environment)
            elif name == "scf.while":
                self._while(operation, environment)
            elif name in ("scf.yield", "scf.condition"):
                return [environment.get(value) for value in operation.operands]
            elif name == "hivm.hir.get_block_idx":
                environment[operation.results[0]] = self._program
            elif name == "hivm.hir.get_sub_block_idx":
                environment[operation.results[0]] = self._half
            elif name in ("memref.load", "memref.store"):
                execute(operation, environment)
                buffer = environment.get(operation.attributes["memref"])  # type: ignore[call-overload]
                known = buffer if isinstance(buffer, Buffer) else None
                self._add(of_access(known, name == "memref.store", self.rates))
            else:
                execute(operation, environment)
        return []

    def _call(self, operation: Operation, environment: Environment) -> None:
        execute(operation, environment)
        name = str(operation.attributes["callee"])
        callee = find(name)
        if callee is None:
            return  # the verdict's walk says so
        operands = [environment.get(value) for value in operation.operands]
        key = (name, tuple(_key(operand) for operand in operands))
        work = self._calls.get(key)
        if work is None:
            work = self._calls[key] = of_call(callee, name, operands, self.rates)
        self._add(work)

    def _if(self, operation: Operation, environment: Environment) -> None:
        condition = number(environment, operation.operands[0])
        if condition is None:
            unlikely = "unlikely" in str(operation.attributes.get("attributes", ""))
            condition = int(not unlikely)
            self.assumptions["a condition that depends on data: " + ("not met" if unlikely else "met")] = None
        results: list[Known] = []
        if condition:
            results = self._region(operation.regions[0], environment)
        elif len(operation.regions) > 1:
            results = self._region(operation.regions[1], environment)
        environment.update(zip(operation.results, results))

    def _while(self, operation: Operation, environment: Environment) -> None:
        before, after = operation.regions
        values = [environment.get(value) for value in operation.operands]
        for _ in range(MOST_WHILE):
            environment.update(zip(before.arguments, values))
            condition, *passed = self._region(before, environment)
            environment.update(zip(operation.results, passed))
            if condition is None:
                self.assumptions["a while loop's condition depends on data: one iteration counted"] = None
                self.exact = False
            elif not condition:
                return
            environment.update(zip(after.arguments, passed))
            values = self._region(after, environment)
            if condition is None:
                return
        self.assumptions[f"a while loop was followed for {MOST_WHILE} iterations only"] = None
        self.exact = False

    def _for(self, operation: Operation, environment: Environment) -> None:
        lower, upper, step = (number(environment, value) for value in operation.operands[:3])
        initial = [environment.get(value) for value in operation.operands[3:]]
        if lower is None or upper is None or not step:
            self.assumptions["a loop's bounds depend on data: one iteration counted"] = None
            self.exact = False
            lower, trips, step = None, 1, 0
        else:
            trips = max(0, -(-(upper - lower) // step))
        loop = _Loop(self, operation.regions[0], environment, lower, step, initial)
        final = loop.run(trips)
        environment.update(zip(operation.results, final))


class _Loop:
    """One execution of an scf.for."""

    def __init__(
        self,
        machine: _Machine,
        body: Region,
        environment: Environment,
        lower: int | None,
        step: int,
        carried: list[Known],
    ) -> None:
        self._machine, self._body, self._environment = machine, body, environment
        self._lower, self._step, self._carried = lower, step, carried
        self._later: list[Callable[[int], Known]] | None = None
        self._costs: dict[int, Vector] = {}

    def run(self, trips: int) -> list[Known]:
        """Adds the cost of all iterations to the machine's total; returns the carried values behind the last."""
        machine = self._machine
        if trips <= FEW_ITERATIONS:
            values = self._carried
            for index in range(trips):
                values = self._iterate(index, values)
            return values
        outside, machine._total = machine._total, list(_ZERO)
        self._follow()
        last = trips - 1
        total = [a + b for a, b in zip(self._between(0, last - 1), self._cost(last))]
        machine._total = outside
        machine._add_values(tuple(total))
        return [value(trips) for value in self._later or []]

    def _iterate(self, index: int, values: list[Known]) -> list[Known]:
        variable, *carried = self._body.arguments
        self._environment[variable] = None if self._lower is None else self._lower + index * self._step
        self._environment.update(zip(carried, values))
        return self._machine._region(self._body, self._environment)

    def _follow(self) -> None:
        """How carried values go on, from the first two iterations: by a constant step, or not known."""
        if not self._carried:
            self._later = []
            return
        once = self._iterate(0, self._carried)
        twice = self._iterate(1, once)
        self._later = [_progress(a, b, c) for a, b, c in zip(self._carried, once, twice)]

    def _cost(self, index: int) -> Vector:
        if index not in self._costs:
            self._machine._total = list(_ZERO)
            self._iterate(index, [value(index) for value in self._later or []])
            self._costs[index] = tuple(self._machine._total)
        return self._costs[index]

    def _between(self, first: int, last: int) -> Vector:
        """The cost of iterations `first` to `last`, both included."""
        a, b = self._cost(first), self._cost(last)
        count = last - first + 1
        if count <= 2:
            return a if count == 1 else tuple(x + y for x, y in zip(a, b))
        middle = (first + last) // 2
        m = self._cost(middle)
        even = (last - first) % 2 == 0
        if a == b == m or (even and all(abs(2 * y - x - z) <= 1e-6 * (abs(y) + 1) for x, y, z in zip(a, m, b))):
            return tuple((x + y) / 2 * count for x, y in zip(a, b))
        if len(self._costs) > MOST_SAMPLES:
            text = "a loop's iterations differ irregularly; it is estimated from some of them"
            self._machine.assumptions[text] = None
            return tuple((x + y) / 2 * count for x, y in zip(a, b))
        left, right = self._between(first, middle), self._between(middle + 1, last)
        return tuple(x + y for x, y in zip(left, right))


def _progress(a: Known, b: Known, c: Known) -> Callable[[int], Known]:
    if isinstance(a, int) and isinstance(b, int) and isinstance(c, int) and c - b == b - a:
        return lambda index, first=a, step=b - a: first + index * step  # type: ignore[misc]
    if isinstance(a, Buffer) and isinstance(b, Buffer) and isinstance(c, Buffer):
        if None not in (a.offset, b.offset, c.offset) and a.root == b.root and a.shape == b.shape == c.shape:
            step = (b.offset or 0) - (a.offset or 0)
            if (c.offset or 0) - (b.offset or 0) == step:
                return lambda index, view=a, step=step: replace(view, offset=(view.offset or 0) + index * step)  # type: ignore[misc]
        merged = merge(a, merge(b, c))
        return lambda index: merged
    return lambda index: None


def _key(operand: Known) -> object:
    if not isinstance(operand, Buffer):
        return operand
    begin = operand.byte_offset if operand.space == "ub" else 0
    return (
        operand.space,
        operand.element,
        operand.shape,
        operand.limit,
        operand.strides,
        None if begin is None else begin % 32,
    )
