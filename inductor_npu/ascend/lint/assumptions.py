"""The assumed types of a kernel's arguments where nobody launches it: guesses from names, annotations, defaults and
use.

Each guess is reported: the lint's findings hold under these assumptions.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from inductor_npu.ascend.kernel import Constant

LARGE_TILE, SMALL_TILE = 1024, 64  # elements along an axis: of tiles with one axis, with several
_FLOATS = re.compile(
    r"(^|_)(eps\w*|scale|alpha|beta|lr|p|prob\w*|dropout|rate|momentum|decay|temperature|slope)$", re.I
)
_FLAG = re.compile(r"^(HAS|IS|USE|EVEN|DO|ENABLE|WITH|STORE|LOAD|RETURN|APPLY|ALLOW|NEED|CAUSAL)(_|$)", re.I)
_FLAGS = frozenset({"reverse", "keep_dims", "allow_tf32", "descending", "return_indices", "is_volatile"})
_OF_INTEGERS = (ast.FloorDiv, ast.LShift, ast.RShift, ast.BitAnd, ast.BitOr, ast.BitXor)
_POINTER = re.compile(r"(_ptrs?$)|(^ptr)|(_pointer$)|(^p_)", re.I)
_TYPE = re.compile(r"\*?(?:fp(?:16|32|64)|bf16|[iu](?:1|8|16|32|64)|fp8\w*)")
_ANNOTATED = {"float": "fp32", "int": "i32", "bool": "i1"}
_ACCESSES = {"load", "store", "atomic_add", "atomic_max", "atomic_min", "atomic_and", "atomic_or", "atomic_xor"} | {
    "atomic_xchg",
    "atomic_cas",
    "make_block_ptr",
    "make_tensor_descriptor",
}


@dataclass
class Guess:
    """Types of run-time arguments, values of constants, and in words what was assumed."""

    signature: dict[str, str] = field(default_factory=dict)
    constants: dict[str, Constant] = field(default_factory=dict)
    assumptions: list[str] = field(default_factory=list)


def guess(
    kernel: ast.FunctionDef,
    functions: Mapping[str, ast.FunctionDef],
    given: Mapping[str, str],
    config: Mapping[str, Constant],
) -> Guess:
    """Types and constants of `kernel`'s arguments.

    functions: the jitted functions of the file, for pointers that are passed on. given: texts of types and values by
    name, which go before all else. config: values that its first autotune configuration has.
    """
    found, use = Guess(), _Use(kernel, functions)
    arguments = [*kernel.args.posonlyargs, *kernel.args.args, *kernel.args.kwonlyargs]
    defaults = _defaults(kernel)
    for argument in arguments:
        name = argument.arg
        if name in given:
            _take(found, name, given[name])
        elif _annotation(argument) == "constexpr":
            _guess_constant(found, name, defaults, config, use)
        else:
            _guess_type(found, argument, defaults, use)
    return found


def first_config(kernel: ast.FunctionDef) -> dict[str, Constant]:
    """The values of the first configuration of `@triton.autotune`, as far as they are written there."""
    for decorator in kernel.decorator_list:
        if not isinstance(decorator, ast.Call) or _last_name(decorator.func) != "autotune":
            continue
        for node in ast.walk(decorator):
            if isinstance(node, ast.Call) and _last_name(node.func) == "Config" and node.args:
                return _literals(node.args[0])
    return {}


def _take(found: Guess, name: str, text: str) -> None:
    if _TYPE.fullmatch(text):
        found.signature[name] = text
    elif text.startswith("tl."):
        found.constants[name] = text
    else:
        found.constants[name] = ast.literal_eval(text)


def is_argument(text: str) -> bool:
    """Whether `text` is a type, a dtype of triton.language, or a literal."""
    if _TYPE.fullmatch(text) or re.fullmatch(r"tl\.\w+", text):
        return True
    try:
        return isinstance(ast.literal_eval(text), int | float | str | bool | None)
    except (ValueError, SyntaxError):
        return False


def _guess_constant(
    found: Guess, name: str, defaults: dict[str, Constant], config: Mapping[str, Constant], use: _Use
) -> None:
    if name in config:
        value, why = config[name], "its first configuration"
    elif name in defaults:
        value, why = defaults[name], "its default"
    else:
        value, why = use.constant(name), "assumed"
    found.constants[name] = value
    if why != "its default":
        found.assumptions.append(f"{name} = {value if str(value).startswith('tl.') else repr(value)} ({why})")


def _guess_type(found: Guess, argument: ast.arg, defaults: dict[str, Constant], use: _Use) -> None:
    name, annotation = argument.arg, _annotation(argument)
    if annotation in _ANNOTATED or (annotation and _TYPE.fullmatch(annotation)):
        found.signature[name] = _ANNOTATED.get(annotation, annotation)
        return
    if name in use.pointers or (_POINTER.search(name) and name not in use.scalars):
        type_ = "*i32" if name in use.integers else "*i1" if name in use.masks else "*fp32"
    elif isinstance(defaults.get(name), float) or _FLOATS.search(name):
        type_ = "fp32"
    else:
        type_ = "i32"
    found.signature[name] = type_
    found.assumptions.append(f"{name}: {type_}")


class _Use:
    """What the arguments of a function are used as."""

    def __init__(
        self, function: ast.FunctionDef, functions: Mapping[str, ast.FunctionDef], callers: tuple[str, ...] = ()
    ) -> None:
        self._function = function
        self._functions = functions
        self._callers = (*callers, function.name)
        self._names = {
            argument.arg for argument in [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
        }
        self._values: dict[str, list[ast.expr]] = {}
        for node in ast.walk(function):
            for target, value in _assigned(node):
                self._values.setdefault(target, []).append(value)
        self.pointers: set[str] = set()
        self.scalars: set[str] = set()
        self.integers: set[str] = set()
        self.masks: set[str] = set()
        for node in ast.walk(function):
            if isinstance(node, ast.Call):
                self._visit_call(node)
            elif isinstance(node, ast.BinOp) and isinstance(node.op, _OF_INTEGERS):
                for operand in (node.left, node.right):
                    self._visit_integer(operand)
            elif isinstance(node, ast.Attribute) and node.attr == "element_ty":
                self.pointers |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)} & self._names

    def _visit_call(self, call: ast.Call) -> None:
        name = _last_name(call.func)
        if name in _ACCESSES and (address := _argument(call, 0, "pointer", "base")) is not None:
            root = self._root(address, frozenset())
            if root is not None:
                self.pointers.add(root)
            for loaded in self._loads(address, frozenset()):
                source = self._root(loaded, frozenset())
                if source is not None and source != root:
                    self.integers.add(source)
            mask = next((keyword.value for keyword in call.keywords if keyword.arg == "mask"), None)
            if isinstance(mask, ast.Name):
                for value in self._values.get(mask.id, []):
                    if isinstance(value, ast.Call) and _last_name(value.func) == "load" and value.args:
                        self.masks |= {source} if (source := self._root(value.args[0], frozenset())) else set()
        elif name in self._functions and name not in self._callers:
            callee = self._functions[name]
            inner = _Use(callee, self._functions, self._callers)
            parameters = [argument.arg for argument in [*callee.args.posonlyargs, *callee.args.args]]
            passed = {
                **dict(zip(parameters, call.args)),
                **{word.arg: word.value for word in call.keywords if word.arg},
            }
            for parameter, value in passed.items():
                if parameter in inner.pointers and (root := self._root(value, frozenset())):
                    self.pointers.add(root)
                    self.integers |= {root} if parameter in inner.integers else set()

    def _visit_integer(self, operand: ast.expr) -> None:
        """What an operator of integers is applied to was loaded from integers."""
        values = self._values.get(operand.id, []) if isinstance(operand, ast.Name) else [operand]
        for value in values:
            if isinstance(value, ast.Call) and _last_name(value.func) == "load" and value.args:
                source = self._root(value.args[0], frozenset())
                self.integers |= {source} if source is not None else set()

    def _root(self, address: ast.expr, seen: frozenset[str]) -> str | None:
        """The argument that an address begins with: the first in a sum that is one, or leads to one."""
        if isinstance(address, ast.BinOp) and isinstance(address.op, ast.Add | ast.Sub):
            return self._root(address.left, seen) or self._root(address.right, seen)
        if isinstance(address, ast.Call) and _last_name(address.func) in ("to", "advance", "cast", "multiple_of"):
            inner = (
                address.func.value if isinstance(address.func, ast.Attribute) and not _is_module(address.func) else None
            )
            return self._root(inner if inner is not None else address.args[0], seen) if inner or address.args else None
        if isinstance(address, ast.IfExp):
            return self._root(address.body, seen)
        if not isinstance(address, ast.Name) or address.id in seen:
            return None
        # An argument that is assigned to again (`x += row * stride`) is still the address's beginning.
        if address.id in self._names:
            return address.id
        for value in self._values.get(address.id, []):
            if (root := self._root(value, seen | {address.id})) is not None:
                return root
        return None

    def _loads(self, expression: ast.expr, seen: frozenset[str]) -> Iterator[ast.expr]:
        """The addresses of loads that an expression is computed of."""
        for node in ast.walk(expression):
            if isinstance(node, ast.Call) and _last_name(node.func) == "load" and node.args:
                yield node.args[0]
            elif isinstance(node, ast.Name) and node.id not in seen and node.id not in self._names:
                for value in self._values.get(node.id, []):
                    yield from self._loads(value, seen | {node.id})

    def constant(self, name: str) -> Constant:
        """A value for a constant, of the kind that its uses ask for."""
        has_axes = any(isinstance(node, ast.Subscript) for node in ast.walk(self._function))
        for node in ast.walk(self._function):
            if isinstance(node, ast.Compare) and _mentions(node, name):
                texts = [part.value for part in [node.left, *node.comparators] if isinstance(part, ast.Constant)]
                if texts and isinstance(texts[0], str):
                    return texts[0]
            if isinstance(node, ast.If | ast.IfExp | ast.While) and _is_flag(node.test, name):
                return True
            if isinstance(node, ast.keyword) and _is_name(node.value, name):
                if node.arg in ("dtype", "out_dtype"):
                    return "tl.float32"
                if node.arg in _FLAGS:
                    return False
            if isinstance(node, ast.Call) and any(_is_name(part, name) for part in _types_in(node)):
                return "tl.float32"
        if _FLAG.match(name):
            return True
        if "GROUP" in name.upper():
            return 8
        return SMALL_TILE if has_axes else LARGE_TILE


def _assigned(node: ast.AST) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
            elif isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                yield from (
                    (part.id, value) for part, value in zip(target.elts, node.value.elts) if isinstance(part, ast.Name)
                )
    elif (
        isinstance(node, ast.AnnAssign | ast.AugAssign) and isinstance(node.target, ast.Name) and node.value is not None
    ):
        yield node.target.id, node.value


def _argument(call: ast.Call, position: int, *names: str) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg in names), None)


def _types_in(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call that are dtypes."""
    first = {"to": 0, "cast": 1, "zeros": 1, "full": 2}.get(_last_name(call.func))
    return [] if first is None else call.args[first : first + 1]


def _is_flag(test: ast.expr, name: str) -> bool:
    """Whether a condition asks `name` for its truth."""
    if isinstance(test, ast.BoolOp):
        return any(_is_flag(part, name) for part in test.values)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _is_flag(test.operand, name)
    return _is_name(test, name)


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _is_module(function: ast.Attribute) -> bool:
    """Whether `a.b(...)` is a function of a module such as tl, rather than a method."""
    return isinstance(function.value, ast.Name) and function.value.id in ("tl", "triton", "language")


def _mentions(node: ast.AST, name: str) -> bool:
    return any(_is_name(part, name) for part in ast.walk(node))


def _annotation(argument: ast.arg) -> str:
    """The last name of an annotation: "constexpr", "float"; "" for none."""
    node = argument.annotation
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.rpartition(".")[2]
    return _last_name(node) if node is not None else ""


def _last_name(node: ast.expr) -> str:
    """`c` of a.b.c."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _defaults(function: ast.FunctionDef) -> dict[str, Constant]:
    positional = [*function.args.posonlyargs, *function.args.args]
    pairs = [
        *zip(reversed(positional), reversed(function.args.defaults)),
        *zip(function.args.kwonlyargs, function.args.kw_defaults),
    ]
    return {argument.arg: value for argument, node in pairs if node is not None for value in _literal(node)}


def _literal(node: ast.expr) -> Iterator[Constant]:
    """The value of an expression that is a literal, or a dtype's name."""
    if isinstance(node, ast.Attribute):
        yield f"tl.{node.attr}"
        return
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return
    if value is None or isinstance(value, bool | int | float | str):
        yield value


def _literals(node: ast.expr) -> dict[str, Constant]:
    """The literal values of a dictionary that is written `{...}` or `dict(...)`."""
    pairs: list[tuple[object, ast.expr]] = []
    if isinstance(node, ast.Call) and _last_name(node.func) == "dict":
        pairs = [(keyword.arg, keyword.value) for keyword in node.keywords]
    elif isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
        pairs = list(zip(keys, node.values))
    return {name: value for name, expression in pairs if isinstance(name, str) for value in _literal(expression)}
