"""What torch.compile did, as plain data: frozen, comparable, and JSON."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from inductor_npu.codegen.annotations.provenance import Line
from inductor_npu.diagnostics.compile_time.record import CompileTimes
from inductor_npu.support.units import operations_text, share_of


class Pass(str, Enum):
    """Which pass a graph is of. The value is what users read."""

    INFERENCE = "inference"
    FORWARD = "forward"
    BACKWARD = "backward"


@dataclass(frozen=True)
class Kernel:
    """One kernel of a graph, and what one call of the graph does with it.

    operators: the ATen operators that it computes, such as `aten.gelu`, in the graph's order; none if a user wrote it.
    lines: the user's source lines that led to its launches, or where a user wrote it; files without their folder.
    launches: how often the graph's code launches it; inside a loop of the graph (`torch.while_loop`) once a round.
    bytes_read, bytes_written: device memory that all these launches move, each element once: at the sizes for which the
        graph was compiled, and at most that where indices or masks are data. None where it is not known, as of a kernel
        that a user wrote, and for one on the CPU.
    sizes: what the bytes depend on, such as `8*s77 and 4*s77 where s77 = 1024`; "" if all sizes are constants.
    written_by_user: a Triton kernel of the program's own, which the graph launches.
    on_cpu: one that Inductor generates in C++ for tensors on the CPU.
    product: for one that multiplies matrices, its estimated cycles and those of the library with separate kernels.
    operations: floating-point operations of products, attention and convolutions in all these launches; see
        `Arithmetic`.
    """

    name: str
    operators: tuple[str, ...]
    lines: tuple[Line, ...]
    launches: int
    bytes_read: int | None
    bytes_written: int | None
    sizes: str = ""
    written_by_user: bool = False
    on_cpu: bool = False
    product: str = ""
    operations: int = 0

    @property
    def moves_unknown(self) -> bool:
        """Whether it moves device memory, and nobody knows how much."""
        return not self.on_cpu and (self.bytes_read is None or self.bytes_written is None)


@dataclass(frozen=True)
class LibraryCall:
    """An operator that is a library's on every device, such as a convolution: `extern_kernels.convolution`.

    reason: why it is no kernel, for those that may be one.
    operations: floating-point operations of all calls; see `Arithmetic`.
    """

    operator: str
    calls: int
    lines: tuple[Line, ...]
    reason: str = ""
    operations: int = 0


@dataclass(frozen=True)
class LeftToEager:
    """What a graph runs as eager operators although it is no library's work, and why.

    operators: one operator that is called, or those of a kernel that did not compile.
    kernel: the kernel's name in that case, else None.
    operations: floating-point operations of all calls; see `Arithmetic`.
    """

    operators: tuple[str, ...]
    reason: str
    calls: int
    lines: tuple[Line, ...]
    kernel: str | None = None
    operations: int = 0


@dataclass(frozen=True)
class CompiledWithout:
    """What a graph was compiled without, because it did not compile with it: graph passes, templates, kernels.

    why: the first error, with the step, the operator and the user's line that it came from, as far as known.
    """

    left_out: str
    why: str


@dataclass(frozen=True)
class Arithmetic:
    """Who does the arithmetic of matrix products, attention and convolutions, in floating-point operations: two for a
    multiply-add, as `torch.utils.flop_counter` counts. What kernels that a user wrote compute is not known.

    elsewhere: the operators that the library or eager computes, each with its calls; those with most operations first.
    """

    in_kernels: int = 0
    in_library: int = 0
    in_eager: int = 0
    elsewhere: tuple[tuple[str, int], ...] = ()

    @property
    def total(self) -> int:
        """All of it."""
        return self.in_kernels + self.in_library + self.in_eager

    def text(self) -> str:
        """`98.2% of 12.3 GFLOP in kernels, 1.8% in the library: convolution (3)`; empty where there is none."""
        if not self.total:
            return ""
        text = f"{share_of(self.in_kernels, self.total)} of {operations_text(self.total)} in kernels"
        for share, where in ((self.in_library, "the library"), (self.in_eager, "eager")):
            text += f", {share_of(share, self.total)} in {where}" if share else ""
        named = ", ".join(name if calls == 1 else f"{name} ({calls})" for name, calls in self.elsewhere)
        return f"{text}: {named}" if named else text


@dataclass(frozen=True)
class Graph:
    """What one graph became.

    compile_id: torch's, such as `0/1`: the second compile of the first function. A forward and its backward have one.
    function, line: the function that was compiled, and where it begins; None where torch does not say, as for a graph
        of compiled autograd or a module of torch's own.
    found: whether it came from a cache, and was not generated by this process.
    compiled_without: what is missing because the graph did not compile with it; None for a graph that compiled at once.
    """

    compile_id: str
    pass_: Pass
    function: str | None
    line: Line | None
    found: bool
    kernels: tuple[Kernel, ...]
    library_calls: tuple[LibraryCall, ...]
    left_to_eager: tuple[LeftToEager, ...]
    compiled_without: CompiledWithout | None = None

    @property
    def bytes_read(self) -> int:
        """Device memory that the kernels read in one call, as far as it is known."""
        return sum(kernel.bytes_read or 0 for kernel in self.kernels)

    @property
    def bytes_written(self) -> int:
        """Device memory that the kernels write in one call, as far as it is known."""
        return sum(kernel.bytes_written or 0 for kernel in self.kernels)


@dataclass(frozen=True)
class GraphBreak:
    """A place where a function falls apart into graphs with Python between them.

    reason, explanation, hints: Dynamo's words: what it cannot trace, why, and what to write instead.
    line: the user's line, the innermost of the inlined calls; None where Dynamo names none.
    times: how often it was met: once for each compile of its function.
    """

    reason: str
    explanation: str
    hints: tuple[str, ...]
    line: Line | None
    times: int


@dataclass(frozen=True)
class Recompile:
    """A function that was compiled again: `guards` are what failed, one for each earlier compile, the newest first."""

    compile_id: str
    function: str | None
    line: Line | None
    guards: tuple[str, ...]


@dataclass(frozen=True)
class EagerFunction:
    """A function that runs in eager as a whole, because compiling it failed or its limit of recompiles is reached."""

    function: str | None
    line: Line | None
    reason: str


@dataclass(frozen=True)
class CacheLookups:
    """What was looked for in one cache. `bypassed`: how often it was not asked.

    reasons: why it was not asked, and why it had nothing: one for each kernel that was missed, and for a graph where
        torch knows it.
    """

    cache: str
    found: int
    missed: int
    bypassed: int = 0
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Captured:
    """What became of the calls of a compiled function that mode="reduce-overhead" captures (docs/graphs.md).

    function: its pass and a number, and the number of a part where operators that cannot be captured cut the graph.
    warmed_up: calls launched kernel by kernel because they were the first of their sizes.
    captured, replayed: graphs that were captured, and calls that replayed one.
    skipped: other calls launched kernel by kernel, by reason.
    """

    function: str
    warmed_up: int
    captured: int
    replayed: int
    skipped: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class Observed:
    """What torch.compile did while it was observed.

    Only what was compiled, or loaded from a cache, was seen: a call that runs what an earlier call compiled gives an
    explanation without graphs.
    """

    graphs: tuple[Graph, ...] = ()
    graph_breaks: tuple[GraphBreak, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    eager_functions: tuple[EagerFunction, ...] = ()
    caches: tuple[CacheLookups, ...] = ()
    captured: tuple[Captured, ...] = ()
    times: CompileTimes = field(default_factory=CompileTimes)

    @property
    def kernels(self) -> tuple[Kernel, ...]:
        """The kernels of all graphs."""
        return tuple(kernel for graph in self.graphs for kernel in graph.kernels)

    @property
    def library_calls(self) -> tuple[LibraryCall, ...]:
        """The library calls of all graphs."""
        return tuple(call for graph in self.graphs for call in graph.library_calls)

    @property
    def left_to_eager(self) -> tuple[LeftToEager, ...]:
        """What all graphs leave to eager."""
        return tuple(left for graph in self.graphs for left in graph.left_to_eager)

    @property
    def bytes_read(self) -> int:
        """Device memory that kernels read in one call of each graph, as far as it is known."""
        return sum(graph.bytes_read for graph in self.graphs)

    @property
    def bytes_written(self) -> int:
        """Device memory that kernels write in one call of each graph, as far as it is known."""
        return sum(graph.bytes_written for graph in self.graphs)

    @property
    def arithmetic(self) -> Arithmetic:
        """Who does the arithmetic in one call of each graph."""
        named = [(call.operator, call.calls, call.operations) for call in self.library_calls]
        named += [(", ".join(left.operators), left.calls, left.operations) for left in self.left_to_eager]
        by_name = [
            (name.rpartition(".")[2], sum(calls for _, calls, _ in same), sum(count for *_, count in same))
            for same in grouped([each for each in named if each[2]], lambda each: each[0].rpartition(".")[2])
            for name in [same[0][0]]
        ]
        return Arithmetic(
            sum(kernel.operations for kernel in self.kernels),
            sum(call.operations for call in self.library_calls),
            sum(left.operations for left in self.left_to_eager),
            tuple((name, calls) for name, calls, _ in sorted(by_name, key=lambda each: -each[2])),
        )

    @property
    def happened(self) -> bool:
        """Whether anything was observed."""
        return bool(self.graphs or self.graph_breaks or self.recompiles or self.eager_functions or self.captured)

    def cache(self, name: str) -> CacheLookups:
        """What was looked for in the cache called `name`: "AOTAutograd", "FX graph" or "npu kernels"."""
        return next((cache for cache in self.caches if cache.cache == name), CacheLookups(name, 0, 0))

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        fields = {each.name: getattr(self, each.name) for each in dataclasses.fields(self) if each.name != "times"}
        plain = {name: [dataclasses.asdict(entry) for entry in entries] for name, entries in fields.items()}
        return {**plain, "arithmetic": dataclasses.asdict(self.arithmetic), "times": self.times.to_json()}


def grouped(values: list[Any], key: Callable[[Any], Any]) -> list[list[Any]]:
    """`values` in lists of those with one key, in the order in which the keys come first."""
    groups: dict[Any, list[Any]] = {}
    for value in values:
        groups.setdefault(key(value), []).append(value)
    return [*groups.values()]
