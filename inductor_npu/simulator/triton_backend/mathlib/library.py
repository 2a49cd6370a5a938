"""The functions a kernel's module needs, as LLVM IR text.

    library = Library()
    exp = library.function("exp", ("f32",), lanes=16)     # exp.symbol == "npu.exp.f32.v16"
    ... call <16 x float> @npu.exp.f32.v16(<16 x float> %x) ...
    module_text += library.text()                         # definitions, then the declarations they need

Elements are written as in MLIR. bf16 travels as i16 and fp8 as i8 (their bits). A function defined for f32 also accepts
narrower floats: it then computes in f32 and rounds its result.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from .builder import Builder, Value, llvm_type

Body = Callable[..., Value]
NARROW = ("f16", "bf16", "f8E4M3FN", "f8E5M2")  # what functions of f32 take, too
INLINE_LINES = 150  # longer bodies stay calls: inlining them would cost more compile time than the call costs


class UnknownFunction(KeyError):
    """No such function, or not for these element types."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Definition:
    """A function by name: the argument types it is written for, and its body."""

    name: str
    signatures: tuple[tuple[str, ...], ...]
    body: Body


@dataclass(frozen=True)
class Function:
    """An LLVM function. `result` and `arguments` are MLIR element names; all have `lanes` lanes (1: scalar)."""

    symbol: str
    result: str
    arguments: tuple[str, ...]
    lanes: int
    text: str
    declarations: tuple[str, ...]

    @property
    def result_type(self) -> str:
        return llvm_type(self.result, self.lanes)

    @property
    def argument_types(self) -> tuple[str, ...]:
        return tuple(llvm_type(a, self.lanes) for a in self.arguments)

    def call(self, *operands: str) -> str:
        """The right-hand side of an instruction that calls it; operands without their types."""
        typed = ", ".join(f"{t} {o}" for t, o in zip(self.argument_types, operands, strict=True))
        return f"call {self.result_type} @{self.symbol}({typed})"


class IRText(Protocol):
    """What a module needs to know of a function."""

    @property
    def symbol(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def declarations(self) -> tuple[str, ...]: ...


AnyFunction = TypeVar("AnyFunction", bound=IRText)
DEFINITIONS: dict[str, Definition] = {}
_BUILT: dict[tuple[str, tuple[str, ...], int], Function] = {}


def define(name: str, *signatures: str) -> Callable[[Body], Body]:
    """Registers the body of `name`; each signature is its argument elements, space-separated."""

    def register(body: Body) -> Body:
        if name in DEFINITIONS:
            raise ValueError(f"mathlib: {name} is defined twice")
        DEFINITIONS[name] = Definition(name, tuple(tuple(s.split()) for s in signatures), body)
        return body

    return register


def build_function(name: str, arguments: tuple[str, ...], lanes: int) -> Function:
    """The function `name` for these argument elements and lanes. Raises UnknownFunction."""
    key = (name, arguments, lanes)
    if key not in _BUILT:
        _BUILT[key] = _build(name, arguments, lanes)
    return _BUILT[key]


def _build(name: str, arguments: tuple[str, ...], lanes: int) -> Function:
    definition = DEFINITIONS.get(name)
    if definition is None:
        raise UnknownFunction(f"the NPU's math library has no function '{name}'")
    builder = Builder(lanes)
    values = [Value(builder, element, f"%a{i}") for i, element in enumerate(arguments)]
    if arguments in definition.signatures:
        result = definition.body(builder, *values)
    elif (wide := tuple("f32" if a in NARROW else a for a in arguments)) in definition.signatures:
        widen, narrow = DEFINITIONS["convert_to_f32"].body, DEFINITIONS[f"convert_to_{_narrowest(arguments)}"].body
        result = definition.body(builder, *(widen(builder, v) if v.element in NARROW else v for v in values))
        result = narrow(builder, result) if result.element == "f32" and wide != arguments else result
    else:
        known = "; ".join(f"({', '.join(s)})" for s in definition.signatures)
        raise UnknownFunction(f"the NPU's math library has '{name}' for {known}, not for ({', '.join(arguments)})")
    symbol = ".".join(("npu", name, *arguments, f"v{lanes}"))
    parameters = ", ".join(str(v) for v in values)
    inline = "alwaysinline" if len(builder.lines) <= INLINE_LINES and not builder.calls_out else "noinline"
    effects = "" if builder.strict else " memory(none)"
    attributes = f"{'strictfp noinline' if builder.strict else inline} nounwind willreturn{effects}"
    text = "\n".join(
        [
            f"define internal {result.type} @{symbol}({parameters}) {attributes} {{",
            "entry:",
            *builder.lines,
            f"  ret {result}",
            "}",
        ]
    )
    return Function(symbol, result.element, arguments, lanes, text, tuple(builder.declarations))


def _narrowest(arguments: tuple[str, ...]) -> str:
    return next((a for a in arguments if a in NARROW), "f32")


def name_for(name: str, type_: str) -> str:
    """The function here for libdevice's `name` of arguments of `type_`: that of mulhi for u32 is umulhi."""
    return f"u{name}" if type_.startswith("u") and f"u{name}" in DEFINITIONS else name


class Library:
    """Collects the functions of one module, each once."""

    def __init__(self) -> None:
        self._functions: dict[str, IRText] = {}

    def function(self, name: str, arguments: tuple[str, ...], lanes: int) -> Function:
        """Adds the function (if new) and returns it. Raises UnknownFunction."""
        built = build_function(name, arguments, lanes)
        return self.add(built)

    def add(self, function: AnyFunction) -> AnyFunction:
        """Adds a function built elsewhere, such as a matrix product."""
        self._functions.setdefault(function.symbol, function)
        return function

    def text(self, declared: frozenset[str] = frozenset()) -> str:
        """All definitions and the declarations they need, without the lines in `declared`, which the module has."""
        functions = self._functions.values()
        declarations = dict.fromkeys(d for f in functions for d in f.declarations if d not in declared)
        return "\n".join([*declarations, *(f.text for f in functions)]) + "\n"
