"""TTIR's text as data: a recursive-descent parser of MLIR's pretty syntax for the dialects of Triton's front end.

The parser reads `tt`, `arith`, `math`, `scf`, `cf`, `ub`, and any other operation in MLIR's generic form,
`"name"(operands) <{properties}> ({regions}) {attributes} : (types) -> types`, or in the regular form,
`name operands {attributes} : types`.

Names of attributes in `Op.attrs` are MLIR's own (those of an attribute dictionary are unchanged). Where the pretty
syntax writes an attribute without a name or under another name, they are:

========================= ============================================================================================
arith.constant            value: int, float, bool or Dense
arith.cmpi, arith.cmpf    predicate: "slt", "ogt", ...
arith.*f, math.*          fastmath: "fast" or a list of flags as text; overflowFlags: "nsw, nuw"
tt.get_program_id         axis: 0, 1, 2 (also tt.get_num_programs)
tt.make_range             start, end
tt.load                   cache, evict (keywords as text, absent: none), isVolatile, boundaryCheck, padding (1 zero,
                          2 NaN); operands pointer, then mask, then other, where present
tt.store                  cache, evict, boundaryCheck; operands pointer, value, then mask where present
tt.atomic_rmw             rmw_op ("and", "or", "xor", "add", "fadd", "max", "min", "umax", "umin", "exch"), sem, scope;
                          operands pointer, value, then mask where present
tt.atomic_cas             sem, scope; operands pointer, compare, value
tt.expand_dims            axis
tt.trans                  order
tt.reshape                allow_reorder, efficient_layout (True where present)
tt.reduce, tt.scan        axis, reverse; one region whose terminator is tt.reduce.return or tt.scan.return
tt.gather                 axis; operands source, indices
tt.dot                    inputPrecision ("ieee" where absent), maxNumImpreciseAcc; operands a, b, accumulator
tt.dot_scaled             lhs, rhs (formats as text), a_scale, b_scale (bool: whether the operand is present), fastMath;
                          operands a, b, accumulator, then the scales that are present
tt.fp_to_fp               rounding: "rtne", "rtz", absent where none is given
tt.clampf                 propagateNan: "none" or "all"; operands value, minimum, maximum
tt.print                  prefix, hex, isSigned (a list, one number per operand)
tt.assert, cf.assert      message
tt.elementwise_inline_asm asm_string, constraints, packed_element, pure
tt.extern_elementwise     libname, libpath, symbol, pure
tt.call                   callee
tt.make_tensor_ptr        order; operands base, shape..., strides..., offsets... (as many of each as the tile has axes)
tt.advance                operands block pointer, offsets...
tt.make_tensor_descriptor operands base, shape..., strides...
tt.descriptor_load        operands descriptor, indices...; tt.descriptor_store: descriptor, value, indices...
tt.descriptor_gather      operands descriptor, row indices, column; tt.descriptor_scatter: and the value
scf.for                   unsigned (True where the comparison is); operands lower, upper, step, initial values...; one
                          region whose arguments are the induction variable and the carried values
scf.if                    operand condition; one or two regions
scf.while                 operands initial values; regions "before" (ends in scf.condition: condition, values...) and
                          "after"
========================= ============================================================================================

Every region of scf ends in its terminator, even where MLIR's text omits it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from .ir import (
    Block,
    Function,
    Module,
    Op,
    PointerType,
    ScalarType,
    SourceLine,
    TensorDescType,
    TensorType,
    Type,
    Value,
)
from .lexer import Lexer, ParseError
from .literals import read_attribute, read_dictionary, read_string, read_type, symbol_name
from .locations import Locations
from .structure import Labelled, structured

__all__ = ["ParseError", "parse"]

I1 = ScalarType("i1")
I32 = ScalarType("i32")

# Attributes that the pretty syntax writes as bare words or strings, in order.
_WORDS: dict[str, tuple[str, ...]] = {
    "arith.cmpi": ("predicate",),
    "arith.cmpf": ("predicate",),
    "tt.get_program_id": ("axis",),
    "tt.get_num_programs": ("axis",),
    "tt.atomic_rmw": ("rmw_op", "sem", "scope"),
    "tt.atomic_cas": ("sem", "scope"),
    "tt.print": ("prefix",),
    "tt.assert": ("message",),
    "cf.assert": ("message",),
    "tt.elementwise_inline_asm": ("asm_string",),
    "tt.descriptor_reduce": ("kind",),
    "tt.flip": ("axis",),
    "tt.sort": ("axis", "descending"),
}
_RENAMED = {"cacheModifier": "cache", "evictionPolicy": "evict", "overflow": "overflowFlags"}
_AXES = {"x": 0, "y": 1, "z": 2}
_LITERALS = {"true": True, "false": False}
_DEFAULTS: dict[str, dict[str, object]] = {
    "tt.dot": {"inputPrecision": "ieee"},
    "tt.clampf": {"propagateNan": "none"},
}


def parse(text: str) -> Module:
    """The module that `text` (what `str(mod)` prints of a TTIR module) holds.

    Raises ParseError, which names the operation and its line of the text, for text outside the syntax described above.
    """
    return _Parser(text).module()


@dataclass
class _Parts:
    """What the regular form of an operation holds."""

    operands: list[Value] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    attrs: dict[str, object] = field(default_factory=dict)
    types: list[Type] = field(default_factory=list)
    result_types: list[Type] | None = None


def _literal(word: str) -> object:
    return int(word) if word.isdecimal() else _LITERALS[word]


def _like(type_: Type, element: Type) -> Type:
    """`element`, in the shape of `type_` where that is a tensor."""
    return TensorType(type_.shape, element) if isinstance(type_, TensorType) else element


def _loaded(pointer: Type) -> Type:
    """What a load through `pointer` (or a tile of pointers) gives."""
    element = pointer.element if isinstance(pointer, TensorType) else pointer
    if not isinstance(element, PointerType):
        raise ValueError(f"a load through {pointer}, which is not a pointer")
    return _like(pointer, element.pointee)


def _pointer_to_tile(type_: Type) -> Type:
    return type_ if isinstance(type_, PointerType) else PointerType(type_)


def _descriptor(type_: Type) -> Type:
    return TensorDescType(type_) if isinstance(type_, TensorType) else type_


# Types of the results of operations whose text has no arrow, from the types that it has; the last of them where not
# listed.
_RESULT_TYPES: dict[str, Callable[[list[Type]], Type]] = {
    "arith.cmpi": lambda types: _like(types[0], I1),
    "arith.cmpf": lambda types: _like(types[0], I1),
    "tt.load": lambda types: _loaded(types[0]),
    "tt.addptr": lambda types: types[0],
    "tt.make_tensor_ptr": lambda types: _pointer_to_tile(types[0]),
    "tt.advance": lambda types: _pointer_to_tile(types[0]),
    "tt.make_tensor_descriptor": lambda types: _descriptor(types[-1]),
}


class _Parser(Lexer):
    """Reads one module of TTIR. Long, as each syntactic form is a method."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self._locations = Locations(text)
        self._values: dict[str, Value] = {}
        self._handlers: dict[str, Callable[[str, int], Op]] = {
            "arith.constant": self._constant,
            "scf.for": self._for,
            "scf.if": self._if,
            "scf.while": self._while,
            "tt.call": self._call,
            "cf.br": self._branch,
            "cf.cond_br": self._branch,
        }

    # Module and functions

    def module(self) -> Module:
        if not self.accept("module"):
            raise self.error("expected `module`")
        while not self.accept("{"):
            if self.accept("attributes"):
                read_dictionary(self)
            else:
                self.take()
        functions: dict[str, Function] = {}
        while not self.accept("}"):
            if not self.accept("tt.func"):
                raise self.error(f"expected `tt.func` in the module, found `{self.peek()}`")
            function = self._function()
            functions[function.name] = function
        return Module(functions)

    def _function(self) -> Function:
        self._values = {}
        public = self.peek() != "private"
        if self.peek()[0] != "@":
            self.take()
        name = symbol_name(self.take())
        arguments, attrs = self._parameters()
        result_types = self._type_list() if self.accept("->") else []
        if self.accept("attributes"):
            read_dictionary(self)
        blocks = self._region()
        body = structured(blocks, arguments, lambda reason: ParseError(f"function @{name}: {reason}"))
        return Function(name, body, result_types, attrs, public, self._location())

    def _parameters(self) -> tuple[list[Value], list[dict[str, object]]]:
        """`(%x: type {attributes} loc(...), ...)`."""
        values: list[Value] = []
        attrs: list[dict[str, object]] = []
        self.expect("(")
        while not self.accept(")"):
            name = self.take()
            self.expect(":")
            values.append(self._define(name, read_type(self)))
            attrs.append(read_dictionary(self) if self.peek() == "{" else {})
            self._location()
            self.accept(",")
        return values, attrs

    # Regions

    def _region(self) -> list[Labelled]:
        """`{ operations }`, cut into blocks at the labels."""
        self.expect("{")
        blocks = [Labelled("", Block())]
        while not self.accept("}"):
            token = self.peek()
            if token[:1] == "^":
                label = self.take()
                block = Block(self._parameters()[0] if self.peek() == "(" else [])
                self.expect(":")
                if len(blocks) == 1 and not blocks[0].block.ops and not blocks[0].label:
                    blocks.clear()
                blocks.append(Labelled(label, block))
            elif token == "":
                raise self.error("the text ends inside a region")
            else:
                blocks[-1].block.ops.append(self._operation())
        return blocks

    def _single_block(self, arguments: list[Value], name: str) -> Block:
        """A region that ends in `scf.yield`, whether written or not."""
        block = structured(self._region(), arguments, lambda reason: self.error(f"`{name}`: {reason}"))
        if not block.ops or block.ops[-1].name not in ("scf.yield", "scf.condition"):
            block.ops.append(Op("scf.yield", [], []))
        return block

    # Operations

    def _operation(self) -> Op:
        start = self.at
        names: list[tuple[str, int]] = []
        if self.peek()[0] == "%":
            while True:
                name = self.take()
                names.append((name, int(self.take()) if self.accept(":") else 0))
                if not self.accept(","):
                    break
            self.expect("=")
        count = sum(copies or 1 for _, copies in names)
        name = self.take()
        if name[0] == '"':
            op = self._generic(read_string(name), count)
        else:
            op = self._handlers.get(name, self._regular)(name, count)
        if len(op.results) != count:
            self.at = start
            raise self.error(f"`{op.name}` has {len(op.results)} results, {count} are named")
        op.line = self._location() or op.line
        index = 0
        for result_name, copies in names:
            for copy in range(copies or 1):
                value = op.results[index]
                value.name = f"{result_name}#{copy}" if copies else result_name
                self._values[value.name] = value
                index += 1
        return op

    def _regular(self, name: str, count: int) -> Op:
        parts = self._parts(name)
        attrs = {**_DEFAULTS.get(name, {}), **parts.attrs}
        if "cachePolicy" in attrs:  # Triton 3.9: #tt.cache_policy<cache_modifier = cg, eviction_policy = evict_last>
            policy = re.findall(r"(cache|evict)\w+ = (\w+)", str(attrs.pop("cachePolicy")))
            attrs.update(policy)
        operands = parts.operands
        if name == "tt.dot_scaled":
            operands = _scales_last(parts, attrs)
        elif parts.words:
            attrs.update(self._named_words(name, parts.words))
        return _op(name, operands, self._result_types(name, parts, count), attrs)

    def _named_words(self, name: str, words: list[str]) -> dict[str, object]:
        """Bare words as attributes; those of an operation that is not known here become the list "words"."""
        if name not in _WORDS:
            return {"words": words}
        names = _WORDS[name]
        if len(names) != len(words):
            raise self.error(f"`{name}`: expected {len(names)} keywords, found {', '.join(words)}")
        if name in ("tt.get_program_id", "tt.get_num_programs"):
            return {"axis": _AXES[words[0]]}
        values = [_literal(word) for word in words] if name in ("tt.flip", "tt.sort") else words
        return dict(zip(names, values, strict=True))

    def _parts(self, name: str) -> _Parts:
        """What follows an operation's name up to its location or the end of its line."""
        parts = _Parts()
        tokens, line_starts = self.tokens, self.line_starts
        while True:
            token = tokens[self.at]
            first = token[:1]
            if self.at in line_starts or first == "" or token == "}" or token.startswith("loc("):
                return parts
            self.at += 1
            if first == "%":
                parts.operands.append(self._value(token))
            elif first in ",[]()":
                continue
            elif first == '"':
                parts.words.append(read_string(token))
            elif first == "{":
                self.at -= 1
                parts.attrs.update(read_dictionary(self))
            elif token == ":":
                if tokens[self.at][0] != "%":  # tt.print writes its operands after the colon
                    parts.types = self._type_list(name)
            elif token in ("->", "to"):
                parts.result_types = self._type_list(name)
            elif token == "scale":
                parts.words.append(str(len(parts.operands)))
            elif first.isalpha():
                self._keyword(token, parts)
            elif token.isdecimal():  # the axis of Ascend's tt.sort and tt.flip
                parts.words.append(token)
            else:
                self.at -= 1
                raise self.error(f"`{name}`: unexpected `{token}`")

    def _keyword(self, token: str, parts: _Parts) -> None:
        """`word`, `name = value` or `name<flags>`."""
        if self.accept("="):
            parts.attrs[_RENAMED.get(token, token)] = read_attribute(self)
        elif self.accept("<"):
            start = self.at
            while not self.accept(">"):
                self.take()
            parts.attrs[_RENAMED.get(token, token)] = " ".join(self.tokens[start : self.at - 1]).replace(" ,", ",")
        else:
            parts.words.append(token)

    def _type_list(self, name: str = "") -> list[Type]:
        """Types between commas (or a dot's `*`), possibly in parentheses."""
        types: list[Type] = []
        if self.accept("("):
            while not self.accept(")"):
                types.append(read_type(self))
                self.accept(",")
            return types
        types.append(read_type(self))
        while self.accept(",") or (self.peek() == "*" and self.accept("*")):
            types.append(read_type(self))
        # `: A, B : C`, e.g. in older forms of tt.store, needs no special care: the last colon's types win.
        return types

    def _result_types(self, name: str, parts: _Parts, count: int) -> list[Type]:
        if parts.result_types is not None:
            found = parts.result_types
            return found * count if len(found) == 1 else found
        if count == 0:
            return []
        if not parts.types:
            self.at -= 1
            raise self.error(f"`{name}` states no type for its result")
        if count == len(parts.types) > 1:
            return parts.types
        infer = _RESULT_TYPES.get(name)
        try:
            return [infer(parts.types) if infer else parts.types[-1]] * count
        except ValueError as error:
            self.at -= 1
            raise self.error(f"`{name}`: {error}") from None

    def _generic(self, name: str, count: int) -> Op:
        """`"name"(operands)[successors] <{properties}> ({regions}) {attributes} : (types) -> types`."""
        self.expect("(")
        operands: list[Value] = []
        while not self.accept(")"):
            operands.append(self._value(self.take()))
            self.accept(",")
        attrs: dict[str, object] = {}
        if self.accept("<"):
            attrs.update(read_dictionary(self))
            self.expect(">")
        regions: list[Block] = []
        if self.accept("("):
            while not self.accept(")"):
                regions.append(structured(self._region(), None, lambda reason: self.error(f"`{name}`: {reason}")))
                self.accept(",")
        if self.peek() == "{":
            attrs.update(read_dictionary(self))
        self.expect(":")
        self._type_list()
        self.expect("->")
        types = self._type_list()
        return _op(name, operands, types, attrs, regions)

    def _constant(self, name: str, count: int) -> Op:
        attrs = read_dictionary(self) if self.peek() == "{" else {}
        start = self.at
        value = read_attribute(self)
        if self.tokens[start] in ("true", "false"):
            return _op(name, [], [I1], {**attrs, "value": value})
        self.at -= 1
        if self.tokens[self.at] == ">":
            raise self.error("`arith.constant` states no type")
        return _op(name, [], [read_type(self)], {**attrs, "value": value})

    def _call(self, name: str, count: int) -> Op:
        callee = symbol_name(self.take())
        parts = self._parts(name)
        return _op(name, parts.operands, parts.result_types or [], {**parts.attrs, "callee": callee})

    def _branch(self, name: str, count: int) -> Op:
        """`cf.br ^to(%a : type)` and `cf.cond_br %condition, ^to(...), ^else(...)`.

        "successors" holds the labels, "sizes" how many of the operands (after the condition) each one receives.
        """
        operands: list[Value] = []
        successors: list[str] = []
        sizes: list[int] = []
        if name == "cf.cond_br":
            operands.append(self._value(self.take()))
            self.expect(",")
        while self.peek()[:1] == "^" and self.at not in self.line_starts:
            successors.append(self.take())
            before = len(operands)
            if self.accept("("):
                while self.peek()[:1] == "%":
                    operands.append(self._value(self.take()))
                    self.accept(",")
                self.expect(":")
                while not self.accept(")"):
                    read_type(self)
                    self.accept(",")
            sizes.append(len(operands) - before)
            self.accept(",")
        attrs = read_dictionary(self) if self.peek() == "{" else {}
        return _op(name, operands, [], {**attrs, "successors": successors, "sizes": sizes})

    # Structured control flow

    def _for(self, name: str, count: int) -> Op:
        """`scf.for [unsigned] %i = %lower to %upper step %step [iter_args(%a = %x, ..) -> (types)] [: type] {..}`."""
        attrs: dict[str, object] = {"unsigned": True} if self.accept("unsigned") else {}
        variable = self.take()
        self.expect("=")
        operands = [self._value(self.take())]
        for word in ("to", "step"):
            self.expect(word)
            operands.append(self._value(self.take()))
        carried, types = self._carried("iter_args", operands)
        index_type = read_type(self) if self.accept(":") else operands[0].type
        arguments = [self._define(variable, index_type)]
        arguments += [self._define(carried_name, type_) for carried_name, type_ in zip(carried, types)]
        body = self._single_block(arguments, name)
        if self.peek() == "{":
            attrs.update(read_dictionary(self))
        return _op(name, operands, types, attrs, [body])

    def _carried(self, keyword: str, operands: list[Value]) -> tuple[list[str], list[Type]]:
        """`keyword(%a = %x, ...) -> (types)`: appends the initial values to `operands`; names and types of the carried
        ones.
        """
        names: list[str] = []
        if not self.accept(keyword):
            return [], []
        self.expect("(")
        while not self.accept(")"):
            names.append(self.take())
            self.expect("=")
            operands.append(self._value(self.take()))
            self.accept(",")
        self.expect("->")
        return names, self._type_list()

    def _if(self, name: str, count: int) -> Op:
        """`scf.if %condition [-> (types)] { ... } [else { ... }]`."""
        condition = self._value(self.take())
        types = self._type_list() if self.accept("->") else []
        regions = [self._single_block([], name)]
        if self.accept("else"):
            regions.append(self._single_block([], name))
        attrs = read_dictionary(self) if self.peek() == "{" else {}
        return _op(name, [condition], types, attrs, regions)

    def _while(self, name: str, count: int) -> Op:
        """`scf.while [(%a = %x, ...)] : (types) -> types { ... } do { ^bb0(...): ... }`."""
        operands: list[Value] = []
        names: list[str] = []
        if self.accept("("):
            while not self.accept(")"):
                names.append(self.take())
                self.expect("=")
                operands.append(self._value(self.take()))
                self.accept(",")
        self.expect(":")
        argument_types = self._type_list()
        self.expect("->")
        types = self._type_list()
        before = self._single_block([self._define(n, t) for n, t in zip(names, argument_types)], name)
        self.expect("do")
        after = self._single_block([], name)
        attrs: dict[str, object] = {}
        if self.accept("attributes"):
            attrs = read_dictionary(self)
        return _op(name, operands, types, attrs, [before, after])

    # Values and locations

    def _value(self, name: str) -> Value:
        try:
            return self._values[name]
        except KeyError:
            self.at -= 1
            raise self.error(f"`{name}` is not a value defined before") from None

    def _define(self, name: str, type_: Type) -> Value:
        value = self._values[name] = Value(name, type_)
        return value

    def _location(self) -> SourceLine | None:
        token = self.peek()
        if not token.startswith("loc("):
            return None
        self.at += 1
        return self._locations.resolve(token[4:-1])


def _op(
    name: str, operands: list[Value], types: list[Type], attrs: dict[str, object], regions: list[Block] | None = None
) -> Op:
    op = Op(name, operands, [], attrs, regions or [])
    op.results = [Value("", type_, op, index) for index, type_ in enumerate(types)]
    return op


def _scales_last(parts: _Parts, attrs: dict[str, object]) -> list[Value]:
    """Operands of tt.dot_scaled as a, b, accumulator, scales; the text writes each scale after its matrix."""
    operands = list(parts.operands)
    scales = [operands.pop(int(position) - index) for index, position in enumerate(parts.words)]
    a_has_scale = "1" in parts.words
    attrs["a_scale"] = a_has_scale
    attrs["b_scale"] = len(parts.words) > int(a_has_scale)
    return operands + scales
