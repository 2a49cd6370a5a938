"""The meaning of operations of Ascend's HFusion dialect, written in MLIR's own dialects.

Upstream MLIR can run `linalg`, `scf`, `arith` and `memref`. Operations that Ascend's compiler adds to these are
rewritten here, from text to text, one by one. elements.py defines what each does to an element.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from inductor_npu.ascend.execute.elements import (
    ATOMICS,
    BINARY,
    UNARY,
    Lines,
    Names,
    Tile,
    UnknownOperationError,
    bits_of,
    cast,
    compare,
    parse_type,
    saturating_cast,
)

_VALUE = r"%[\w#]+"
_RESULT = rf"^\s*(?P<result>{_VALUE}) = hfusion\."
_RESULTS = rf"^\s*(?:(?P<results>{_VALUE}(?::\d+)?(?:, {_VALUE})*) = )?hfusion\."
_ATTRIBUTES = r"(?: \{(?P<attributes>.*?)\})?"
_OPERANDS = r" ins\((?P<ins>[^:]*) : (?P<in_types>.*?)\) outs\((?P<outs>[^:]*) : (?P<out_types>.*?)\)"
_ONE_OPERAND = rf"(?P<operand>{_VALUE})"
_DESTINATION = re.compile(rf"{_RESULTS}(?P<name>\w+){_ATTRIBUTES}{_OPERANDS}(?P<rest>.*)$")
_REDUCE_WITH_INDEX = re.compile(
    rf"{_RESULTS}reduce_with_index{_ATTRIBUTES} <(?P<kind>\w+)>{_OPERANDS} dimensions = \[(?P<axis>\d+)\].*$"
)
_ARANGE = re.compile(
    rf"{_RESULT}arange{_ATTRIBUTES}(?: offset\[(?P<offset>{_VALUE})\])? strides\[(?P<strides>[^\]]*)\] "
    rf"outs\((?P<out>{_VALUE}) : (?P<type>.*?)\) -> .*$"
)
_SCAN = re.compile(
    rf"{_RESULT}(?P<name>cumsum|cumprod) {_ONE_OPERAND} : (?P<type>\S+) "
    rf"cum_dims = \[(?P<axis>\d+)\] reverse = (?P<reverse>true|false) -> .*$"
)
_FLIP = re.compile(rf"{_RESULT}flip {_ONE_OPERAND} : (?P<type>\S+) flip_axis = (?P<axis>\d+) -> .*$")
_INTERLEAVE = re.compile(rf"{_RESULT}interleave (?P<operands>[^:]*) : .* -> (?P<type>\S+)$")
_DEINTERLEAVE = re.compile(
    rf"{_RESULT}deinterleave {_ONE_OPERAND} channel<(?P<channel>\d+)> : (?P<source>\S+) -> (?P<type>\S+)$"
)
_SORT = re.compile(
    rf"{_RESULT}sort ins\({_ONE_OPERAND} : (?P<type>[^)]*)\) "
    rf"descending = (?P<descending>true|false) sort_axis = (?P<axis>\d+) -> .*$"
)
_WIDE_PRODUCT = re.compile(rf"{_RESULTS}(?P<name>mulext|mulextui) (?P<operands>[^:]*) : (?P<type>\S+)$")
_TEST = re.compile(rf"{_RESULT}(?P<name>isnan|isinf|isfinite) {_ONE_OPERAND} : (?P<type>\S+) -> (?P<to>\S+)$")
# Nothing that these do changes a result.
_DROPPED = re.compile(
    r"^\s*(hfusion\.(print|assert|barrier)|annotation\.mark|hivm\.hir\.(debug|pipe_barrier|set_ctrl))\b"
)


def _split_types(text: str) -> list[str]:
    """Splits at the commas that are outside of every bracket."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += character in "<([{"
        depth -= character in ">)]}" and text[at - 1] != "-"
        if character == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]


def _structure(maps: str, iterators: str) -> str:
    """The attributes of a linalg.generic."""
    return f"{{indexing_maps = [{maps}], iterator_types = [{iterators}]}}"


class Writer:
    """Rewrites HFusion operations, line by line. `functions` holds the signatures of the helper functions that were
    called. Long, as each kind of operation is a method.
    """

    def __init__(self) -> None:
        self.fresh = Names()
        self.casts: set[tuple[str, str]] = set()
        self._empty: set[str] = set()

    def rewrite(self, text: str) -> str:
        """A module without HFusion operations.

        Raises UnknownOperationError for an operation whose meaning is not known, and for one that would need the
        hardware.
        """
        lines: list[str] = []
        for line in text.splitlines():
            lines.extend(self._line(line))
        for source, result in sorted(self.casts):
            declaration = f"  func.func private @{saturating_cast(source, result)}({source}) -> {result}"
            lines.insert(next(at for at, line in enumerate(lines) if re.match(r"\s*module\b", line)) + 1, declaration)
        return "\n".join(lines) + "\n"

    def _line(self, line: str) -> Iterator[str]:
        if re.match(r"\s*module\b", line):
            yield "module {"  # attributes of the chip, in dialects that LLVM's own parser does not know
            return
        if match := re.match(r"(\s*func\.func .*?\(.*\))(.*?)( attributes \{.*\})?( \{)?$", line):
            yield re.sub(r" \{[^}]*\}", "", match[1]) + match[2] + (match[4] or "")
            return
        if match := re.match(rf"\s*({_VALUE}) = tensor\.empty\(", line):
            self._empty.add(match[1])
        if (match := re.match(rf"\s*{_VALUE} = linalg\.reduce ins\(.*\) outs\(({_VALUE}) : ", line)) and match[
            1
        ] in self._empty:
            raise UnknownOperationError(
                "a reduction with a function of its own, which begins with an uninitialised tile,"
            )
        if "hfusion." not in line and "annotation.mark" not in line and "hivm.hir" not in line:
            yield line
            return
        if _DROPPED.match(line):
            return
        for pattern, write in (
            (_DESTINATION, self._destination),
            (_ARANGE, self._arange),
            (_SCAN, self._scan),
            (_FLIP, self._flip),
            (_INTERLEAVE, self._interleave),
            (_DEINTERLEAVE, self._deinterleave),
            (_SORT, self._sort),
            (_REDUCE_WITH_INDEX, self._reduce_with_index),
            (_WIDE_PRODUCT, self._wide_product),
            (_TEST, self._test),
        ):
            match = pattern.match(line)
            if match and (written := write(match)) is not None:
                yield from written
                return
        operation = re.search(r"\b(hfusion\.\w+|hivm\.hir\.\w+)", re.sub(r"\{[^}]*\}", "", line))
        if operation is None:  # an attribute of something else
            yield line
            return
        raise UnknownOperationError(operation[1])

    def _generic(self, results: str, ins: list[str], in_types: list[str], outs: list[str], out_types: list[str],
                 body: Callable[[list[str], list[str]], tuple[list[str], list[str]]]) -> list[str]:  # fmt: skip
        """An elementwise linalg.generic; `body(names, element types)` gives its lines and the values it yields."""
        tile = parse_type(out_types[0])
        assert isinstance(tile, Tile)
        axes = ", ".join(f"d{axis}" for axis in range(tile.rank))
        types = [parse_type(text) for text in [*in_types, *out_types]]
        maps = ", ".join(f"affine_map<({axes}) -> ({axes if isinstance(kind, Tile) else ''})>" for kind in types)
        elements = [kind.element if isinstance(kind, Tile) else kind for kind in types]
        names = [self.fresh() for _ in types]
        lines, yields = body(names, elements)
        iterators = ", ".join(['"parallel"'] * tile.rank)
        inputs = f" ins({', '.join(ins)} : {', '.join(in_types)})" if ins else ""
        tensors = out_types[0].startswith("tensor")
        arrow = (f" -> ({', '.join(out_types)})" if len(out_types) > 1 else f" -> {out_types[0]}") if tensors else ""
        block = ", ".join(f"{name}: {element}" for name, element in zip(names, elements))
        yielded = elements[len(ins) :]
        outputs = f"outs({', '.join(outs)} : {', '.join(out_types)})"
        named = f"{results} = " if results else ""
        return [
            f"    {named}linalg.generic {_structure(maps, iterators)}{inputs} {outputs} {{",
            f"    ^bb0({block}):",
            *(f"      {line}" for line in lines),
            f"      linalg.yield {', '.join(yields)} : {', '.join(yielded)}",
            f"    }}{arrow}",
        ]

    def _destination(self, match: re.Match[str]) -> list[str] | None:
        name, attributes, rest = match["name"], match["attributes"] or "", match["rest"]
        ins, outs = _split_types(match["ins"]), _split_types(match["outs"])
        in_types, out_types = _split_types(match["in_types"]), _split_types(match["out_types"])
        function = re.search(r"_fn<(\w+)>", attributes)
        if name in ("elemwise_unary", "elemwise_binary") and function:
            table = UNARY if name == "elemwise_unary" else BINARY
            if function[1] not in table:
                raise UnknownOperationError(f"hfusion.{name} {function[1]}")

            def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
                lines, value = table[function[1]](self.fresh, names[: len(ins)], types[: len(ins)], types[-1])
                return lines, [value]

        elif name == "cast":
            rounding = re.search(r"round_mode<(\w+)>", attributes)

            def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
                unsigned = "cast_unsigned" in attributes
                lines, value = cast(
                    self.fresh, names[0], types[0], types[1], rounding[1] if rounding else "rint", unsigned
                )
                if any("func.call" in line for line in lines):
                    self.casts.add((types[0], types[1]))
                return lines, [value]

        elif name == "compare":
            comparison = function[1] if function else "veq"  # printed without its default

            def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
                lines, value = compare(self.fresh, names[:2], types[0], comparison)
                return lines, [value]

        elif name == "select":

            def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
                value = self.fresh()
                return [f"{value} = arith.select {names[0]}, {names[1]}, {names[2]} : {types[1]}"], [value]

        elif name == "bitcast":

            def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
                value = self.fresh()
                return [f"{value} = arith.bitcast {names[0]} : {types[0]} to {types[1]}"], [value]

        elif name in ("atomic_rmw", "atomic_cas", "atomic_xchg"):
            return self._atomic(name, rest, ins, in_types, outs, out_types)
        elif name == "gather":
            return self._gather(match["results"], rest, ins, outs, out_types, in_types)
        else:
            return None
        return self._generic(match["results"] or "", ins, in_types, outs, out_types, body)

    def _atomic(
        self, name: str, rest: str, ins: list[str], in_types: list[str], outs: list[str], out_types: list[str]
    ) -> list[str]:
        kind = re.search(r"atomic_kind = <(\w+)>", rest)
        if name == "atomic_rmw" and (not kind or kind[1] not in ATOMICS):
            raise UnknownOperationError(f"hfusion.atomic_rmw {kind[1] if kind else ''}")

        def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
            if name == "atomic_xchg":
                return [], [names[0]]
            if name == "atomic_cas":
                equal, value = self.fresh(), self.fresh()
                comparison = "cmpf oeq" if types[0].startswith(("f", "bf")) else "cmpi eq"
                return [
                    f"{equal} = arith.{comparison}, {names[2]}, {names[0]} : {types[0]}",
                    f"{value} = arith.select {equal}, {names[1]}, {names[2]} : {types[0]}",
                ], [value]
            assert kind
            lines, value = ATOMICS[kind[1]](self.fresh, [names[1], names[0]], [types[1], types[0]], types[1])
            return lines, [value]

        return self._generic("", ins, in_types, outs, out_types, body)

    def _indexed(
        self, result: str, tile: Tile, body: Callable[[list[str]], Lines], out: str | None = None
    ) -> list[str]:
        """A tile whose elements are functions of their coordinates: `body(coordinates)` gives lines and the element."""
        lines = []
        if out is None:
            out = self.fresh()
            lines = [f"    {out} = tensor.empty() : {tile.text}"]

        def inner(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
            coordinates = [self.fresh() for _ in tile.shape]
            written, value = body(coordinates)
            return [*(f"{c} = linalg.index {axis} : index" for axis, c in enumerate(coordinates)), *written], [value]

        return [*lines, *self._generic(result, [], [], [out], [tile.text], inner)]

    def _arange(self, match: re.Match[str]) -> list[str]:
        tile = parse_type(match["type"])
        assert isinstance(tile, Tile)
        strides = [stride.strip() for stride in match["strides"].split(",")]

        def body(coordinates: list[str]) -> Lines:
            lines, total = [], match["offset"]
            for coordinate, stride in zip(coordinates, strides):
                product = self.fresh()
                lines.append(f"{product} = arith.muli {coordinate}, {stride} : index")
                if total is None:
                    total = product
                else:
                    lines.append(f"{(added := self.fresh())} = arith.addi {total}, {product} : index")
                    total = added
            integer = "i64" if tile.is_float else tile.element
            lines.append(f"{(value := self.fresh())} = arith.index_cast {total} : index to {integer}")
            if tile.is_float:
                lines.append(f"{(converted := self.fresh())} = arith.sitofp {value} : i64 to {tile.element}")
                value = converted
            return lines, value

        return self._indexed(match["result"], tile, body, match["out"])

    def _flip(self, match: re.Match[str]) -> list[str]:
        tile = parse_type(match["type"])
        assert isinstance(tile, Tile)
        axis = int(match["axis"])

        def body(coordinates: list[str]) -> Lines:
            last, other, value = self.fresh(), self.fresh(), self.fresh()
            place = [other if at == axis else coordinate for at, coordinate in enumerate(coordinates)]
            return [
                f"{last} = arith.constant {_static(tile)[axis] - 1} : index",
                f"{other} = arith.subi {last}, {coordinates[axis]} : index",
                f"{value} = tensor.extract {match['operand']}[{', '.join(place)}] : {tile.text}",
            ], value

        return self._indexed(match["result"], tile, body)

    def _interleave(self, match: re.Match[str]) -> list[str]:
        tile = parse_type(match["type"])
        assert isinstance(tile, Tile)
        operands = _split_types(match["operands"])
        shape = [*_static(tile)[:-1], _static(tile)[-1] // len(operands)]
        source = f"tensor<{''.join(f'{size}x' for size in shape)}{tile.element}>"

        def body(coordinates: list[str]) -> Lines:
            count, quotient, channel = self.fresh(), self.fresh(), self.fresh()
            lines = [
                f"{count} = arith.constant {len(operands)} : index",
                f"{quotient} = arith.divui {coordinates[-1]}, {count} : index",
                f"{channel} = arith.remui {coordinates[-1]}, {count} : index",
            ]
            value = ""
            for number, operand in enumerate(operands):
                element = self.fresh()
                lines.append(
                    f"{element} = tensor.extract {operand}[{', '.join([*coordinates[:-1], quotient])}] : {source}"
                )
                if not value:
                    value = element
                    continue
                this, same, chosen = self.fresh(), self.fresh(), self.fresh()
                lines += [
                    f"{this} = arith.constant {number} : index",
                    f"{same} = arith.cmpi eq, {channel}, {this} : index",
                    f"{chosen} = arith.select {same}, {element}, {value} : {tile.element}",
                ]
                value = chosen
            return lines, value

        return self._indexed(match["result"], tile, body)

    def _deinterleave(self, match: re.Match[str]) -> list[str]:
        tile, source = parse_type(match["type"]), parse_type(match["source"])
        assert isinstance(tile, Tile) and isinstance(source, Tile)
        channels = _static(source)[-1] // _static(tile)[-1]

        def body(coordinates: list[str]) -> Lines:
            count, channel, product, place, value = (self.fresh() for _ in range(5))
            return [
                f"{count} = arith.constant {channels} : index",
                f"{channel} = arith.constant {match['channel']} : index",
                f"{product} = arith.muli {coordinates[-1]}, {count} : index",
                f"{place} = arith.addi {product}, {channel} : index",
                f"{value} = tensor.extract {match['operand']}[{', '.join([*coordinates[:-1], place])}] : {source.text}",
            ], value

        return self._indexed(match["result"], tile, body)

    def _gather(
        self, result: str, rest: str, ins: list[str], outs: list[str], out_types: list[str], in_types: list[str]
    ) -> list[str]:
        tile, index = parse_type(out_types[0]), parse_type(in_types[1])
        assert isinstance(tile, Tile) and isinstance(index, Tile)
        match = re.search(r"axis = (\d+)", rest)
        axis = int(match[1]) if match else tile.rank - 1

        def body(coordinates: list[str]) -> Lines:
            chosen, place, value = self.fresh(), self.fresh(), self.fresh()
            where = [place if at == axis else coordinate for at, coordinate in enumerate(coordinates)]
            return [
                f"{chosen} = tensor.extract {ins[1]}[{', '.join(coordinates)}] : {in_types[1]}",
                f"{place} = arith.index_cast {chosen} : {index.element} to index",
                f"{value} = tensor.extract {ins[0]}[{', '.join(where)}] : {in_types[0]}",
            ], value

        return self._indexed(result, tile, body, outs[0])

    def _reduce_with_index(self, match: re.Match[str]) -> list[str]:
        """The extreme along an axis and where it is; NaN never is the extreme (the compiler handles NaN around it)."""
        ins, in_types = _split_types(match["ins"]), _split_types(match["in_types"])
        out_types = _split_types(match["out_types"])
        tile, index = parse_type(in_types[0]), parse_type(out_types[1])
        assert isinstance(tile, Tile) and isinstance(index, Tile)
        axis, greatest, element = int(match["axis"]), match["kind"] == "max", tile.element
        if tile.is_float:
            bits = {"f32": 0x7F800000, "f16": 0x7C00, "bf16": 0x7F80}[element]
            sign = {"f32": 1 << 31, "f16": 1 << 15, "bf16": 1 << 15}[element]
            start = hex(bits | (sign if greatest else 0))
            comparison = "cmpf " + ("ogt" if greatest else "olt")
        else:
            least = -(1 << (bits_of(element) - 1))
            start = str(least if greatest else -least - 1)
            comparison = "cmpi " + ("sgt" if greatest else "slt")
        if "tie_break_left = false" in (match["attributes"] or ""):
            comparison = comparison[:-1] + "e"
        places = out_types[1]
        value, zero, empty, nowhere, values, indices = (self.fresh() for _ in range(6))
        lines = [
            f"    {value} = arith.constant {start} : {element}",
            f"    {zero} = arith.constant 0 : {index.element}",
            f"    {empty} = tensor.empty() : {out_types[0]}",
            f"    {nowhere} = tensor.empty() : {places}",
            f"    {values} = linalg.fill ins({value} : {element}) outs({empty} : {out_types[0]}) -> {out_types[0]}",
            f"    {indices} = linalg.fill ins({zero} : {index.element}) outs({nowhere} : {places}) -> {places}",
        ]
        axes = [f"d{at}" for at in range(tile.rank)]
        full, kept = ", ".join(axes), ", ".join(name for at, name in enumerate(axes) if at != axis)
        maps = ", ".join([f"affine_map<({full}) -> ({full})>"] * len(ins) + [f"affine_map<({full}) -> ({kept})>"] * 2)
        iterators = ", ".join('"reduction"' if at == axis else '"parallel"' for at in range(tile.rank))
        given, where, best, place, better, chosen, moved, coordinate = (self.fresh() for _ in range(8))
        arguments = [f"{given}: {element}"] + [f"{where}: {index.element}"] * (len(ins) - 1)
        at = []
        if len(ins) == 1:  # the places are not given: they are the coordinates
            at.append(f"      {coordinate} = linalg.index {axis} : index")
            at.append(f"      {where} = arith.index_cast {coordinate} : index to {index.element}")
        inputs = f"ins({', '.join(ins)} : {', '.join(in_types)})"
        outputs = f"outs({values}, {indices} : {', '.join(out_types)})"
        return [
            *lines,
            f"    {match['results']} = linalg.generic {_structure(maps, iterators)} {inputs} {outputs} {{",
            f"    ^bb0({', '.join(arguments)}, {best}: {element}, {place}: {index.element}):",
            *at,
            f"      {better} = arith.{comparison}, {given}, {best} : {element}",
            f"      {chosen} = arith.select {better}, {given}, {best} : {element}",
            f"      {moved} = arith.select {better}, {where}, {place} : {index.element}",
            f"      linalg.yield {chosen}, {moved} : {element}, {index.element}",
            f"    }} -> ({', '.join(out_types)})",
        ]

    def _wide_product(self, match: re.Match[str]) -> list[str]:
        operands, kind = _split_types(match["operands"]), match["type"]
        operation = "arith.mului_extended" if match["name"] == "mulextui" else "arith.mulsi_extended"
        outs = [self.fresh(), self.fresh()]

        def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
            low, high = self.fresh(), self.fresh()
            return [f"{low}, {high} = {operation} {names[0]}, {names[1]} : {types[0]}"], [low, high]

        return [
            *(f"    {out} = tensor.empty() : {kind}" for out in outs),
            *self._generic(match["results"], operands, [kind, kind], outs, [kind, kind], body),
        ]

    def _test(self, match: re.Match[str]) -> list[str]:
        out = self.fresh()

        def body(names: list[str], types: list[str]) -> tuple[list[str], list[str]]:
            value = self.fresh()
            if match["name"] == "isnan":
                return [f"{value} = arith.cmpf uno, {names[0]}, {names[0]} : {types[0]}"], [value]
            size, infinity = self.fresh(), self.fresh()
            bits = {"f32": "0x7F800000", "f16": "0x7C00", "bf16": "0x7F80"}[types[0]]
            return [
                f"{size} = math.absf {names[0]} : {types[0]}",
                f"{infinity} = arith.constant {bits} : {types[0]}",
                f"{value} = arith.cmpf {'oeq' if match['name'] == 'isinf' else 'olt'}, {size}, {infinity} : {types[0]}",
            ], [value]

        return [
            f"    {out} = tensor.empty() : {match['to']}",
            *self._generic(match["result"], [match["operand"]], [match["type"]], [out], [match["to"]], body),
        ]

    def _nest(
        self, result: str, tile: Tile, start: str, body: Callable[[list[str], str], Lines], sizes: list[int]
    ) -> list[str]:
        """Nested loops over `sizes` that carry a tile from `start` on; `body(coordinates, tile)` gives lines and the
        next tile.
        """
        zero, one = self.fresh(), self.fresh()
        lines = [f"    {zero} = arith.constant 0 : index", f"    {one} = arith.constant 1 : index"]
        coordinates, carried, outer = [], start, [result]
        for size in sizes:
            bound, coordinate, inner = self.fresh(), self.fresh(), self.fresh()
            head = f"scf.for {coordinate} = {zero} to {bound} step {one} iter_args({inner} = {carried})"
            lines += [
                f"    {bound} = arith.constant {size} : index",
                f"    {outer[-1]} = {head} -> ({tile.text}) {{",
            ]
            coordinates.append(coordinate)
            carried = inner
            outer.append(self.fresh())
        written, value = body(coordinates, carried)
        lines += [f"      {line}" for line in written]
        for name in [value, *reversed(outer[1:-1])]:
            lines += [f"    scf.yield {name} : {tile.text}", "    }"]
        return lines

    def _scan(self, match: re.Match[str]) -> list[str]:
        tile = parse_type(match["type"])
        assert isinstance(tile, Tile)
        axis, element = int(match["axis"]), tile.element
        operation = {"cumsum": "add", "cumprod": "mul"}[match["name"]] + ("f" if tile.is_float else "i")
        length = _static(tile)[axis]
        start = self.fresh()

        def body(coordinates: list[str], carried: str) -> Lines:
            zero, one, first, last, place, before = (self.fresh() for _ in range(6))
            element_here, value, sum_before, total, filled = (self.fresh() for _ in range(5))
            step = coordinates[axis]
            lines = [
                f"{zero} = arith.constant 0 : index",
                f"{one} = arith.constant 1 : index",
                f"{first} = arith.cmpi eq, {step}, {zero} : index",
                f"{last} = arith.constant {length - 1} : index",
            ]
            if match["reverse"] == "true":
                lines.append(f"{place} = arith.subi {last}, {step} : index")
                lines.append(f"{before} = arith.addi {place}, {one} : index")
            else:
                lines.append(f"{place} = arith.addi {zero}, {step} : index")
                lines.append(f"{before} = arith.subi {place}, {one} : index")
            here = ", ".join(place if at == axis else c for at, c in enumerate(coordinates))
            there = ", ".join(before if at == axis else c for at, c in enumerate(coordinates))
            return [
                *lines,
                f"{element_here} = tensor.extract {match['operand']}[{here}] : {tile.text}",
                f"{value} = scf.if {first} -> ({element}) {{",
                f"  scf.yield {element_here} : {element}",
                "} else {",
                f"  {sum_before} = tensor.extract {carried}[{there}] : {tile.text}",
                f"  {total} = arith.{operation} {sum_before}, {element_here} : {element}",
                f"  scf.yield {total} : {element}",
                "}",
                f"{filled} = tensor.insert {value} into {carried}[{here}] : {tile.text}",
            ], filled

        return [
            f"    {start} = tensor.empty() : {tile.text}",
            *self._nest(match["result"], tile, start, body, _static(tile)),
        ]

    def _sort(self, match: re.Match[str]) -> list[str]:
        """By exchange of neighbours: slow, but no order of equal elements or NaN to decide."""
        tile = parse_type(match["type"])
        assert isinstance(tile, Tile)
        axis, element = int(match["axis"]), tile.element
        length = _static(tile)[axis]
        less, more = ("olt", "ogt") if tile.is_float else ("slt", "sgt")
        comparison = f"{'cmpf' if tile.is_float else 'cmpi'} {less if match['descending'] == 'true' else more}"

        def body(coordinates: list[str], carried: str) -> Lines:
            one, after, left, right, wrong, low, high, half, full = (self.fresh() for _ in range(9))
            rest, place = coordinates[1:], coordinates[1:][axis]
            here = ", ".join(rest)
            there = ", ".join(after if at == axis else c for at, c in enumerate(rest))
            assert place in rest
            return [
                f"{one} = arith.constant 1 : index",
                f"{after} = arith.addi {place}, {one} : index",
                f"{left} = tensor.extract {carried}[{here}] : {tile.text}",
                f"{right} = tensor.extract {carried}[{there}] : {tile.text}",
                f"{wrong} = arith.{comparison}, {left}, {right} : {element}",
                f"{low} = arith.select {wrong}, {right}, {left} : {element}",
                f"{high} = arith.select {wrong}, {left}, {right} : {element}",
                f"{half} = tensor.insert {low} into {carried}[{here}] : {tile.text}",
                f"{full} = tensor.insert {high} into {half}[{there}] : {tile.text}",
            ], full

        passes = [length, *(size - (at == axis) for at, size in enumerate(_static(tile)))]
        return self._nest(match["result"], tile, match["operand"], body, passes)


def _static(tile: Tile) -> list[int]:
    sizes = [size for size in tile.shape if size is not None]
    if len(sizes) != tile.rank:
        raise UnknownOperationError(f"an operation on {tile.text}, whose size is not static")
    return sizes
