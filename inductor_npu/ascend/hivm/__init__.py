"""Reading what Ascend's compiler made of a kernel: verdict, memory plan and estimated cost, from the final IR's text.

Pure Python: nothing of torch, of Triton or of Ascend's environment is imported.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from enum import Enum

from inductor_npu.ascend.kernel import Launch, TensorArgument
from inductor_npu.target import NpuTarget

from .cost import LaunchCost, launch_cost
from .cube import CubeFacts, cube_facts, cube_findings
from .ir import Function
from .memory import plan
from .parser import parse
from .timing import Touched
from .verdict import Finding, Walk, arguments_environment
from .work import PIPES

__all__ = ["Analysis", "CubeFacts", "Cycles", "Finding", "Verdict", "analyse"]


class Verdict(str, Enum):
    """What became of a kernel, from good to bad. Vector code, `cube` (the cube core alone) and `mixed` (cube core and
    vector cores) are as good.
    """

    VECTOR = "vector"
    CUBE = "cube"
    MIXED = "mixed"
    ELEMENT_DMA = "element DMA"
    SCALAR = "scalar"
    REFUSED = "refused"
    WRONG = "wrong code"


# Of findings that are worse than what the kernel is without them.
_VERDICT_OF = {"EL": Verdict.ELEMENT_DMA, "HL": Verdict.SCALAR, "SL": Verdict.SCALAR, "WC": Verdict.WRONG}
_ORDER = list(Verdict)


@dataclass(frozen=True)
class Cycles:
    """Estimated cycles of each pipe on the busiest core of a launch, at the core's clock. Pipes run side by side.
    `mte1` moves from L1 to L0, `fix` from L0C to memory. `launch` is the whole of a kernel with dots, with the waits of
    the two sides for each other.
    """

    mte2: int
    vector: int
    mte3: int
    scalar: int
    cube: int
    mte1: int = 0
    fix: int = 0
    launch: int | None = None

    @property
    def bound(self) -> str:
        """The name of the pipe that takes longest."""
        return max(PIPES, key=lambda name: int(getattr(self, name)))

    @property
    def longest(self) -> int:
        """Cycles of a launch: of that pipe, unless more is known of how the pipes wait for each other."""
        return int(getattr(self, self.bound)) if self.launch is None else self.launch

    def share(self, pipe: str) -> float:
        """How much of a launch `pipe` is at work."""
        return getattr(self, pipe) / self.longest if self.longest else 0.0


@dataclass(frozen=True)
class Analysis:
    """Everything a report prints of a kernel that the compiler accepted.

    Bytes are of device memory, for the whole launch; None where they depend on data or no launch was given. `reads` and
    `writes` are positions among the kernel's run-time arguments. `cube` is there for a kernel with dots.
    `assumptions` says in words what had to be guessed.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    ub_bytes: int
    ub_share: float
    l1_bytes: int
    l0c_bytes: int
    cube: CubeFacts | None
    buffers_doubled: int
    loops_over_tiles: bool
    reads: tuple[int, ...]
    writes: tuple[int, ...]
    bytes_read: int | None = None
    bytes_written: int | None = None
    vector_instructions: int | None = None
    cycles: Cycles | None = None
    assumptions: tuple[str, ...] = ()


def analyse(hivm: str, target: NpuTarget, launch: Launch | None = None) -> Analysis:
    """What the final IR `hivm` of one kernel says, for `target`; with a `launch`, also what that launch costs.

    Raises HivmSyntaxError, with the line, for text that is not understood.
    """
    module = parse(hivm)
    findings: list[Finding] = []
    assumptions: list[str] = []
    reads: set[int] = set()
    writes: set[int] = set()
    touched: dict[str, Walk] = {}
    for function in module.functions:
        walk = Walk(function, arguments_environment(function, scalars(function, launch))).run()
        touched[function.name] = walk
        findings += walk.findings
        assumptions += walk.assumptions
        positions = kernel_arguments(function)
        reads |= {positions[index] for index in walk.reads if index in positions}
        writes |= {positions[index] for index in walk.writes if index in positions}
    cube = cube_facts(module, hivm)
    if cube is not None:
        findings += cube_findings(module, cube)
    plans = [plan(function) for function in module.functions]
    ub_bytes = max(entry.bytes.get("ub", 0) for entry in plans)
    cost = None
    if launch is not None:
        cost = launch_cost(
            module.functions,
            target,
            launch.grid,
            lambda function: scalars(function, launch),
            cube,
            lambda function: _touched(function, touched[function.name], launch),
        )
        assumptions += cost.assumptions
    return Analysis(
        verdict=_verdict(findings, cube),
        findings=tuple(dict.fromkeys(findings)),
        ub_bytes=ub_bytes,
        ub_share=ub_bytes / target.unified_buffer,
        l1_bytes=max(entry.bytes.get("cbuf", 0) for entry in plans),
        l0c_bytes=max(entry.bytes.get("cc", 0) for entry in plans),
        cube=cube,
        buffers_doubled=sum(entry.doubled for entry in plans),
        loops_over_tiles=any(entry.loops_over_tiles for entry in plans),
        reads=tuple(sorted(reads)),
        writes=tuple(sorted(writes)),
        bytes_read=cost.read if cost and cost.exact else None,
        bytes_written=cost.written if cost and cost.exact else None,
        vector_instructions=cost.instructions if cost else None,
        cycles=_cycles(cost) if cost and target.memory_bandwidth is not None else None,
        assumptions=tuple(dict.fromkeys(assumptions)),
    )


def _verdict(findings: list[Finding], cube: CubeFacts | None) -> Verdict:
    kind = Verdict.VECTOR if cube is None else Verdict.MIXED if cube.vectors else Verdict.CUBE
    return max([kind, *(_VERDICT_OF.get(finding.kind, kind) for finding in findings)], key=_ORDER.index)


def _cycles(cost: LaunchCost) -> Cycles:
    launch = None if cost.time is None else round(cost.time)
    return Cycles(**{pipe: round(cycles) for pipe, cycles in cost.busiest.items()}, launch=launch)


def _touched(function: Function, walk: Walk, launch: Launch) -> Touched:
    """Bytes of the tensors of `launch` that a function reads and writes."""
    positions, arguments = kernel_arguments(function), list(launch.arguments.values())

    def size(indices: set[int]) -> int:
        tensors = (arguments[positions[index]] for index in indices if index in positions)
        return sum(math.prod(one.shape) * _item_bytes(one) for one in tensors if isinstance(one, TensorArgument))

    return Touched(size(walk.reads), size(walk.writes))


def _item_bytes(tensor: TensorArgument) -> int:
    """Bytes of an element, from the name of its dtype."""
    digits = re.search(r"\d+", tensor.dtype.partition("_")[0])
    return max(1, int(digits[0]) // 8) if digits else 1


def kernel_arguments(function: Function) -> dict[int, int]:
    """Position among the function's arguments -> position among the kernel's run-time arguments; the grid's three sizes
    are last.
    """
    own = [index for index, kind in enumerate(function.argument_kinds) if not kind]
    return {index: position for position, index in enumerate(own[:-3])}


def scalars(function: Function, launch: Launch | None) -> dict[int, int | float]:
    """What the function's numeric arguments are worth in `launch`, by position among the function's arguments."""
    if launch is None:
        return {}
    own = [index for index, kind in enumerate(function.argument_kinds) if not kind]
    values: dict[int, int | float] = dict(zip(own[-3:], launch.grid))
    for index, argument in zip(own[:-3], launch.arguments.values()):
        if isinstance(argument, (int, float)):
            values[index] = argument
    return values
