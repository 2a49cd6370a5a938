"""A kernel as the rules see it: its operations without calls, how its indices step, who uses which value."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from inductor_npu.simulator.triton_backend.ttir import parser
from inductor_npu.simulator.triton_backend.ttir.ir import Module, Op, SourceLine, TensorType, Value
from inductor_npu.simulator.triton_backend.ttir.passes import inline_calls, remove_dead_operations

from .forms import Forms

LIBRARY = "library."
RANDOM = frozenset({"rand", "randn", "randint", "rand4x", "randn4x", "randint4x", "philox", "philox_impl"})
OPAQUE = RANDOM | {"flip", "sort", "topk"}


@dataclass(frozen=True)
class Access:
    """A load, a store or an atomic through a tile of pointers. `reads` is False for a store."""

    op: Op
    pointer: Value
    mask: Value | None
    reads: bool

    @property
    def shape(self) -> tuple[int, ...]:
        assert isinstance(self.pointer.type, TensorType), "an access of a tile"
        return self.pointer.type.shape

    @property
    def what(self) -> str:
        """ "load", "store" or "atomic operation"."""
        return {"tt.load": "load", "tt.store": "store"}.get(self.op.name, "atomic operation")


@dataclass(frozen=True)
class Call:
    """A call of a function of Triton's library or of the user's, by its name without arguments' types."""

    function: str
    op: Op
    line: SourceLine | None


class Kernel:
    """The kernel of a TTIR module.

    `calls` has what it called before calls were inlined; in TTIR that went through Triton's own inliner there are none.
    Raises ParseError for text that is no TTIR, ValueError for a module without a kernel, RecursionNotSupportedError.
    """

    def __init__(self, text: str) -> None:
        module = parser.parse(text)
        public = [function for function in module.functions.values() if function.public]
        if len(public) != 1:
            raise ValueError(f"a TTIR module has one public function, the kernel; this one has {len(public)}")
        self.function = public[0]
        self.name = self.function.name
        self.calls = list(_calls(module))
        _keep_as_operations(module)
        inline_calls(module)
        remove_dead_operations(self.function.body)
        self.ops = list(self.function.body.walk())
        self.forms = Forms(self.function.body)
        self.users: dict[Value, list[Op]] = {}
        for op in self.ops:
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)

    def named(self, *names: str) -> Iterator[Op]:
        """The operations of these names, in program order."""
        return (op for op in self.ops if op.name in names)

    def accesses(self) -> Iterator[Access]:
        """Every access through a tile of pointers; block pointers and single elements are none."""
        for op in self.named("tt.load", "tt.store", "tt.atomic_rmw", "tt.atomic_cas"):
            pointer = op.operands[0]
            if not isinstance(pointer.type, TensorType):
                continue
            position = {"tt.load": 1, "tt.store": 2, "tt.atomic_rmw": 2}.get(op.name)
            mask = op.operands[position] if position is not None and len(op.operands) > position else None
            yield Access(op, pointer, mask, op.name != "tt.store")


def library_function(name: str) -> str | None:
    """`flip` of `triton.language.standard.flip`; None for a function of the user's."""
    return name.rpartition(".")[2] if name.startswith("triton.language.") else None


def _keep_as_operations(module: Module) -> None:
    """Library functions that the rules know by name stay one operation, `library.NAME`: what they are made of in this
    version of Triton says nothing of Ascend's.
    """
    for function in module.functions.values():
        for op in function.body.walk():
            if op.name == "tt.call":
                name = library_function(str(op.attrs["callee"]).partition("__")[0])
                if name in OPAQUE:
                    op.name = f"{LIBRARY}{name}"


def _calls(module: Module) -> Iterator[Call]:
    """Calls in the kernel and, at the kernel's line, in what it calls."""
    seen: set[tuple[str, SourceLine | None]] = set()

    def visit(function: str, line: SourceLine | None) -> Iterator[Call]:
        for op in module.functions[function].body.walk():
            if op.name != "tt.call":
                continue
            callee, place = str(op.attrs["callee"]), line or op.line
            if (callee, place) not in seen:
                seen.add((callee, place))
                yield Call(callee.partition("__")[0], op, place)
                yield from visit(callee, place)

    yield from visit(module.kernel.name, None)
