"""The final IR's text (`module.hivm.opt.mlir`) as data.

The compiler prints one operation per line. `{` at a line's end opens a region, `}` at a line's start closes it. For
operations in `_READERS` the parser also reads attributes; for others it reads operands, results, types and regions.
Text that cannot be read, or that would change control flow unnoticed (branches between blocks), raises HivmSyntaxError
with the line.

Attributes of the known operations (an `Index` is a number or a value):

================================ =======================================================================
arith.constant                   value: int, float, bool, or the text of anything else
arith.cmpi, arith.cmpf           predicate
affine.apply, .min, .max         map: a function of the operands
memref.subview                   offsets, sizes, strides: lists of Index; the source is the first operand
memref.reinterpret_cast          offsets (one), sizes, strides; the source is the first operand
memref.view                      offset, sizes; the source is the first operand
memref.collapse_shape,           groups: for each axis of the smaller shape, the axes of the larger one;
memref.expand_shape              sizes (expand_shape)
memref.load, memref.store        memref: Value; indices: list of Index; store: value: Value
hivm.hir.pointer_cast            addresses: values (bytes); sizes: values of the axes of unknown size
func.call                        callee
scf.for                          operands lower, upper, step, initial values; region arguments: variable,
                                 carried values
scf.while                        operands initial values; two regions, before and after
scf.if                           operand condition; one or two regions; attributes: the attributes' text
================================ =======================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable

from inductor_npu.errors import HivmSyntaxError

from .affine import read_affine_map
from .ir import Function, Index, Location, Module, Operation, Region, Value
from .locations import Locations
from .types import read_type, split_types

_RESULTS = re.compile(r"^(%[\w#.$-]+(?::\d+)?(?:, %[\w#.$-]+(?::\d+)?)*) = ")
_OPERATION = re.compile(r'^"?([a-z_][\w.]*)"?')
_VALUE = re.compile(r"%[\w.$-]+(?:#\d+)?")
_SPEC = re.compile(r'dl_entry<"(\w+)", (-?\d+) : i\d+>')
_ARGUMENT = re.compile(r"^(%[\w.$-]+): (.*)$", re.DOTALL)
_KIND = re.compile(r"#hacc\.arg_type<(\w+)>")
_BRACKETS = re.compile(r"\[([^\]]*)\]")
_ATTRIBUTES = re.compile(r" \{[^{}]*\}(?= :)")
# Scopes of names are chained through the regions that surround an operation.
_Scope = dict[str, Value]


def parse(text: str) -> Module:
    """The device functions of `text`. Raises HivmSyntaxError, which names the line, for text that is not understood."""
    return _Parser(text).module()


class _Parser:
    def __init__(self, text: str) -> None:
        self._lines = text.splitlines()
        self._locations = Locations(self._lines)
        self._maps: dict[str, str] = {}
        self._number = 0  # lines read so far; the current line's number, from 1
        self._scopes: list[_Scope] = []

    # ---- the module ----

    def module(self) -> Module:
        functions: list[Function] = []
        target: dict[str, int] = {}
        while self._number < len(self._lines):
            line = self._next()
            stripped = line.strip()
            if stripped.startswith("#map"):
                name, _, definition = stripped.partition(" = ")
                self._maps[name] = definition
            elif stripped.startswith("module"):
                target.update((name, int(value)) for name, value in _SPEC.findall(stripped))
            elif stripped.startswith("func.func"):
                if (function := self._function(stripped)) is not None:
                    functions.append(function)
            elif stripped and not stripped.startswith(("#", "}", "//", "hacc.", "memref.global", "llvm.")):
                raise self._error("not a function, a map or a location", stripped)
        if not functions:
            raise HivmSyntaxError(
                line=len(self._lines), reason="no device function with a body", text="end of the text"
            )
        return Module(functions, target)

    def _function(self, line: str) -> Function | None:
        """The function whose header is `line`; None for a declaration and for the helpers that run on the host."""
        match = re.match(r"func\.func (?:private |public )?@([\w.$-]+)\(", line)
        if match is None:
            raise self._error("a function's header", line)
        end = _closing(line, match.end() - 1)
        if end < 0:
            raise self._error("a function's arguments", line)
        rest = line[end + 1 :]
        if not rest.rstrip().endswith("{"):
            return None
        if "hacc.function_kind<HOST>" in rest:
            self._skip_body()
            return None
        core = re.search(r"func_core_type<(\w+)>", rest)
        scope: _Scope = {}
        arguments, kinds = [], []
        for part in split_types(line[match.end() : end]):
            argument = _ARGUMENT.match(_without_locations(part))
            if argument is None:
                raise self._error("a function's argument", part)
            type_text, _, attributes = argument.group(2).partition(" {")
            kind = _KIND.search(attributes)
            try:
                arguments.append(self._define(scope, argument.group(1), type_text))
            except ValueError as error:
                raise self._error("a function's argument", str(error)) from error
            kinds.append(kind.group(1) if kind else "")
        self._scopes.append(scope)
        operations, closing, location = self._operations()
        self._scopes.pop()
        if closing != "}":
            raise self._error("the end of a function", closing)
        return Function(
            match.group(1),
            arguments,
            kinds,
            Region(arguments, operations),
            core.group(1) if core else "",
            "hacc.entry" in rest,
            location,
        )

    def _skip_body(self) -> None:
        depth = 1
        while depth:
            line = self._next().strip()
            depth += line.endswith("{") and not line.startswith("}")
            depth -= line.startswith("}") and not line.endswith("{")

    # ---- regions ----

    def _operations(self) -> tuple[list[Operation], str, Location | None]:
        """The operations up to the line that closes the region, that line, and the location that it carries."""
        operations: list[Operation] = []
        while True:
            line = self._next().strip()
            if line.startswith("}"):
                return operations, *self._split_location(line)
            if not line or line.startswith("//"):
                continue
            operations.append(self._operation(line))

    def _region(self, arguments: list[tuple[str, str]]) -> tuple[Region, str, Location | None]:
        scope: _Scope = {}
        self._scopes.append(scope)
        values = [self._define(scope, name, type_text) for name, type_text in arguments]
        operations, closing, location = self._operations()
        self._scopes.pop()
        return Region(values, operations), closing, location

    # ---- operations ----

    def _operation(self, line: str) -> Operation:
        number = self._number
        text, location = self._split_location(line)
        match = _RESULTS.match(text)
        names = match.group(1).split(", ") if match else []
        body = text[match.end() :] if match else text
        name_match = _OPERATION.match(body)
        if name_match is None:
            raise self._error("an operation", line)
        name = name_match.group(1)
        operation = Operation("func.call" if name == "call" else name, [], [], number, text, location=location)
        rest = body[name_match.end() :].strip()
        reader = _READERS.get(operation.name)
        try:
            if reader is not None:
                result_types = reader(self, operation, rest)
            else:
                result_types = _read_any(self, operation, rest, len(_result_names(names)))
            for result, type_text in zip(_result_names(names), result_types):
                value = self._define(self._scopes[-1], result, type_text)
                value.owner = operation
                operation.results.append(value)
        except (ValueError, IndexError) as error:
            raise HivmSyntaxError(line=number, reason=str(error) or "syntax", text=_shorten(line)) from error
        if len(operation.results) != len(_result_names(names)):
            raise self._error(f"{len(names)} results of {name} with {len(result_types)} types", line)
        return operation

    def regions(self, operation: Operation, arguments: list[tuple[str, str]]) -> None:
        """Reads the regions that follow `operation`, the first with `arguments`."""
        region, closing, location = self._region(arguments)
        operation.regions.append(region)
        while closing.endswith("{"):
            if not re.match(r"^\} (else|do) \{$", closing):
                raise self._error("the begin of a region", closing)
            region, closing, location = self._region(self._block_arguments())
            operation.regions.append(region)
        if closing.endswith("("):
            raise self._error("a region in an operation's generic form", closing)
        operation.attributes["attributes"] = closing[1:].strip()
        operation.location = location  # of an operation with regions it stands behind the last one

    def _block_arguments(self) -> list[tuple[str, str]]:
        """The arguments of a block label on the next line, if there is one."""
        line = self._lines[self._number].strip() if self._number < len(self._lines) else ""
        if not line.startswith("^"):
            return []
        self._next()
        if "(" not in line:
            return []
        inside = line[line.index("(") + 1 : _closing(line, line.index("("))]
        arguments = []
        for part in split_types(inside):
            match = _ARGUMENT.match(_without_locations(part))
            if match is None:
                raise self._error("a block's argument", part)
            arguments.append((match.group(1), match.group(2)))
        return arguments

    # ---- names and types ----

    def value(self, name: str) -> Value:
        """The value called `name`. Raises ValueError if there is none."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        raise ValueError(f"{name} is used and never defined")

    def values(self, text: str) -> list[Value]:
        """The values named in `text`, in order."""
        return [self.value(name) for name in _VALUE.findall(text)]

    def indices(self, text: str) -> list[Index]:
        """The list `%a, 4, %b` as values and numbers."""
        return [
            self.value(part) if part.startswith("%") else int(part)
            for part in (part.strip() for part in text.split(","))
            if part
        ]

    def affine_map(self, text: str) -> str:
        """The definition of an affine map that is named or written out."""
        if text.startswith("#"):
            if text not in self._maps:
                raise ValueError(f"{text} is used and never defined")
            return self._maps[text]
        return text

    def _define(self, scope: _Scope, name: str, type_text: str) -> Value:
        value = Value(name, read_type(type_text))
        scope[name] = value
        return value

    # ---- lines ----

    def _next(self) -> str:
        if self._number >= len(self._lines):
            raise HivmSyntaxError(line=self._number, reason="a region without an end", text="end of the text")
        self._number += 1
        return self._lines[self._number - 1]

    def _split_location(self, line: str) -> tuple[str, Location | None]:
        """A line without its trailing `loc(...)`, and what that stands for."""
        start = line.rfind(" loc(")
        if start < 0 or not line.endswith(")") or _closing(line, start + 4) != len(line) - 1:
            return line, None
        return line[:start], self._locations.resolve(line[start + 5 : -1])

    def _error(self, reason: str, text: str) -> HivmSyntaxError:
        return HivmSyntaxError(line=self._number, reason=f"expected {reason}", text=_shorten(text))


# ---- one reader an operation: fills the operation from the text behind its name, returns the types of its results ----

_Reader = Callable[[_Parser, Operation, str], list[str]]
_READERS: dict[str, _Reader] = {}


def _reads(*names: str) -> Callable[[_Reader], _Reader]:
    def register(reader: _Reader) -> _Reader:
        _READERS.update(dict.fromkeys(names, reader))
        return reader

    return register


@_reads("arith.constant")
def _read_constant(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    if rest in ("true", "false"):
        operation.attributes["value"] = rest == "true"
        return ["i1"]
    literal, type_text = _split_type(rest)
    operation.attributes["value"] = _literal(literal)
    return [type_text]


@_reads("arith.select")
def _read_select(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    operands, type_text = _split_type(rest)
    operation.operands = parser.values(operands)
    return [split_types(type_text)[-1]]


@_reads("arith.cmpi", "arith.cmpf")
def _read_compare(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    predicate, _, operands = rest.partition(" ")
    operation.attributes["predicate"] = predicate.rstrip(",")
    operation.operands = parser.values(_split_type(operands)[0])
    return ["i1"]


@_reads("affine.apply", "affine.min", "affine.max")
def _read_affine(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    match = re.match(r"(#map\d*|affine_map<.*>)(\(.*)$", rest)
    if match is None:
        raise ValueError("an affine map")
    operation.attributes["map"] = read_affine_map(parser.affine_map(match.group(1)))
    operation.operands = parser.values(match.group(2))
    return ["index"]


@_reads("memref.subview", "memref.reinterpret_cast", "memref.view", "memref.expand_shape")
def _read_view(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    text, _, result = rest.rpartition(" into " if operation.name == "memref.expand_shape" else " to ")
    operands = _split_type(_ATTRIBUTES.sub("", text))[0]
    operation.operands = [parser.value(_first_name(operands))]
    if operation.name == "memref.expand_shape":
        groups, _, sizes = operands.partition("]] output_shape ")
        operation.attributes["groups"] = _groups(groups + "]]")
        operation.attributes["sizes"] = parser.indices(sizes.strip("[] "))
        return [result]
    lists = [parser.indices(inside) for inside in _BRACKETS.findall(operands)]
    names = ("offset", "sizes") if operation.name == "memref.view" else ("offsets", "sizes", "strides")
    if len(lists) != len(names):
        raise ValueError(f"{len(names)} lists of indices")
    operation.attributes.update(zip(names, lists))
    return [result]


@_reads("memref.collapse_shape")
def _read_collapse(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    text, _, result = rest.rpartition(" into ")
    operands = _split_type(text)[0]
    operation.operands = [parser.value(_first_name(operands))]
    operation.attributes["groups"] = _groups(operands)
    return [result]


@_reads("memref.load")
def _read_load(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    text, type_text = _split_type(_ATTRIBUTES.sub("", rest))
    memref = parser.value(_first_name(text))
    operation.attributes.update(memref=memref, indices=parser.indices(_BRACKETS.findall(text)[0]))
    operation.operands = parser.values(text)
    return [_element(type_text)]


@_reads("memref.store")
def _read_store(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    text, _ = _split_type(_ATTRIBUTES.sub("", rest))
    stored, _, target = text.partition(", ")
    operation.attributes.update(
        value=parser.value(stored.strip()),
        memref=parser.value(_first_name(target)),
        indices=parser.indices(_BRACKETS.findall(target)[0]),
    )
    operation.operands = parser.values(text)
    return []


@_reads("hivm.hir.pointer_cast")
def _read_pointer_cast(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    text, type_text = _split_type(rest)
    end = _closing(text, 0)
    operation.attributes["addresses"] = parser.values(text[:end])
    operation.attributes["sizes"] = parser.values(text[end:])
    operation.operands = parser.values(text)
    return [type_text]


@_reads("func.call")
def _read_call(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    match = re.match(r"@([\w.$-]+)\(", rest)
    if match is None:
        raise ValueError("the name of a callee")
    end = _closing(rest, match.end() - 1)
    operation.attributes["callee"] = match.group(1)
    operation.operands = parser.values(rest[match.end() : end])
    results = rest.rpartition(" -> ")[2].strip()
    return split_types(results[1:-1]) if results.startswith("(") else [results]


@_reads("scf.for")
def _read_for(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    match = re.match(
        r"(?:unsigned )?(%\S+) = (%\S+) to (%\S+) step (%\S+)\s*"
        r"(?:iter_args\((.*?)\) -> \((.*)\))?\s*(?:: (\w+))? ?\{$",
        rest,
    )
    if match is None:
        raise ValueError("a loop's header")
    variable, *bounds, carried, types, type_text = match.groups()
    pairs = [pair.partition(" = ")[::2] for pair in carried.split(", ")] if carried else []
    operation.operands = [parser.value(name) for name in (*bounds, *(initial for _, initial in pairs))]
    result_types = split_types(types) if types else []
    arguments = [(variable, type_text or "index"), *zip((name for name, _ in pairs), result_types)]
    parser.regions(operation, arguments)
    return result_types


@_reads("scf.if")
def _read_if(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    match = re.match(r"(%\S+) (?:-> \((.*)\) )?\{$", rest)
    if match is None:
        raise ValueError("a condition")
    operation.operands = [parser.value(match.group(1))]
    parser.regions(operation, [])
    return split_types(match.group(2)) if match.group(2) else []


@_reads("scf.while")
def _read_while(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    match = re.match(r"(?:\((.*?)\) )?: \((.*?)\) -> (.*) \{$", rest)
    if match is None:
        raise ValueError("a while loop's header")
    pairs = [pair.partition(" = ")[::2] for pair in match.group(1).split(", ")] if match.group(1) else []
    operation.operands = [parser.value(initial) for _, initial in pairs]
    parser.regions(operation, list(zip((name for name, _ in pairs), split_types(match.group(2)))))
    results = match.group(3).strip()
    return split_types(results[1:-1]) if results.startswith("(") else [results]


@_reads("arith.mulsi_extended", "arith.mului_extended", "arith.addui_extended")
def _read_two_results(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    text, type_text = _split_type(rest)
    operation.operands = parser.values(text)
    return (split_types(type_text) * 2)[:2]


@_reads("cf.br", "cf.cond_br", "cf.switch", "scf.parallel", "scf.forall", "scf.index_switch", "scf.execute_region")
def _refuse(parser: _Parser, operation: Operation, rest: str) -> list[str]:
    raise ValueError(
        f"{operation.name}: branches between blocks are not followed (the 950's compiler prints them; verdicts are "
        "for the 910B and 910_93)"
    )


def _read_any(parser: _Parser, operation: Operation, rest: str, results: int) -> list[str]:
    """Any operation `name %a, %b {attributes} : types`, with or without regions; its results' types end its text."""
    opened = rest.endswith("{")
    text = " " + (rest[:-1] if opened else rest)
    operands, type_text = _split_type(text) if " : " in text else (text, "")
    if not type_text and " -> " in operands:
        operands, _, type_text = operands.rpartition(" -> ")
    operation.operands = parser.values(operands)
    if opened:
        parser.regions(operation, parser._block_arguments())
    if not results:
        return []
    for separator in (" -> ", " to "):
        type_text = type_text.rpartition(separator)[2]
    type_text = type_text.strip()
    types = split_types(type_text[1:-1] if type_text.startswith("(") else type_text)
    if len(types) == 1 and results > 1:
        types *= results
    return types[-results:]


# ---- small pieces of text ----


def _result_names(names: list[str]) -> list[str]:
    """`%0:2` stands for `%0#0` and `%0#1`."""
    spelled = []
    for name in names:
        base, _, count = name.partition(":")
        spelled += [f"{base}#{i}" for i in range(int(count))] if count else [base]
    return spelled


def _split_type(text: str) -> tuple[str, str]:
    """What stands before and behind the colon in front of the types; brackets in types hold no ` : ` of their own."""
    if text.startswith(": "):
        return "", text[2:]
    before, colon, after = text.rpartition(" : ")
    if not colon:
        raise ValueError("a type")
    return before.strip(), after.strip()


def _closing(text: str, start: int) -> int:
    """Where the parenthesis that opens at `start` closes; -1 if it does not. Strings are skipped."""
    depth, quoted = 0, False
    for position in range(start, len(text)):
        character = text[position]
        if character == '"' and text[position - 1] != "\\":
            quoted = not quoted
        elif not quoted:
            depth += (character == "(") - (character == ")")
            if depth == 0:
                return position
    return -1


def _without_locations(text: str) -> str:
    start = text.find(" loc(")
    while start >= 0:
        end = _closing(text, start + 4)
        text = text[:start] + text[end + 1 :]
        start = text.find(" loc(")
    return text


def _first_name(text: str) -> str:
    match = _VALUE.search(text)
    if match is None:
        raise ValueError("a value")
    return match.group(0)


def _groups(text: str) -> list[list[int]]:
    """`%x [[0, 1], [2]]` -> [[0, 1], [2]]"""
    inside = text[text.index("[[") + 1 : text.rindex("]]") + 1]
    return [[int(axis) for axis in group.split(",") if axis.strip()] for group in _BRACKETS.findall(inside)]


def _element(type_text: str) -> str:
    memref = read_type(type_text)
    if isinstance(memref, str):
        raise ValueError("a memref type")
    return memref.element


def _literal(text: str) -> object:
    try:
        return int(text, 16) if text.startswith("0x") else int(text)
    except ValueError:
        pass
    try:
        return float(text)
    except ValueError:
        return text


def _shorten(text: str, length: int = 160) -> str:
    text = text.strip()
    return text if len(text) <= length else text[:length] + "..."
