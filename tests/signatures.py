"""What this package relies on in torch and Triton, read from its own code and held against what is installed.

Three kinds of reliance, none of which is listed by hand: a name that is imported or reached through a module; a call,
whose arguments have to fit the signature; and a method of a class of ours that takes the place of a base's, which has
to take every call that the base's takes. Nothing is compiled and no kernel is generated.
"""

from __future__ import annotations

import ast
import functools
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from torch._inductor import cudagraph_utils
from torch._inductor.ops_handler import OpsHandler

import inductor_npu

ROOTS = ("torch", "triton")
PACKAGE = Path(inductor_npu.__file__).parent

OF_TORCH_NPU = tuple(
    f"inductor_npu.ascend_chip.{name}" for name in ("interface", "launcher", "packaged_kernels", "packages", "refusals")
)

# From torch 2.12 on, which has captured graphs of devices other than CUDA.
OF_CAPTURES = "inductor_npu.runtime.graph_capture.policy"

# Objects that torch hands out through a name that says nothing of their class.
CLASSES = {
    "V.graph": "torch._inductor.graph:GraphLowering",
    "V.graph.sizevars": "torch._inductor.sizevars:SizeVarAllocator",
    "V.graph.wrapper_code": "torch._inductor.codegen.wrapper:PythonWrapperCodegen",
    "V.graph.scheduler": "torch._inductor.scheduler:Scheduler",
    "V.kernel": "inductor_npu.codegen.emit.tile_kernel:TileKernel",
    "self.scheduler": "torch._inductor.scheduler:Scheduler",
    "self.cse": "torch._inductor.codegen.common:CSE",
    "self.args": "torch._inductor.codegen.common:KernelArgs",
}


@dataclass(frozen=True)
class Call:
    """A call whose arguments are known as far as they are written out: how many by place, which by name."""

    positional: int
    names: tuple[str, ...]
    open_ended: bool  # *args or **kwargs are among them

    def fits(self, signature: inspect.Signature) -> str | None:
        """Why a function of `signature` does not take this call, None where it does."""
        bind = signature.bind_partial if self.open_ended else signature.bind
        try:
            bind(*[None] * self.positional, **dict.fromkeys(self.names))
        except TypeError as error:
            return str(error)
        return None


@functools.cache
def sources() -> dict[str, ast.Module]:
    """Every module of the package that can be imported here, by name: what runs in Ascend's compiler only with it, what
    derives from torch_npu's classes, or from those of later versions of torch, only with these.
    """
    found = pkgutil.walk_packages([str(PACKAGE)], "inductor_npu.")
    names = [info.name for info in found if not info.ispkg and not info.name.endswith("__main__")]
    if importlib.util.find_spec("triton.backends.ascend") is None:
        names = [name for name in names if not name.startswith("inductor_npu.ascend.toolchain.")]
    if importlib.util.find_spec("torch_npu") is None:
        names = [name for name in names if name not in OF_TORCH_NPU]
    if not hasattr(cudagraph_utils, "CUDAGraphPolicy"):
        names.remove(OF_CAPTURES)
    return {name: ast.parse(PACKAGE.joinpath(*name.split(".")[1:]).with_suffix(".py").read_text()) for name in names}


@functools.cache
def reached(name: str) -> Any:
    """The object called `module:attribute.attribute`, without what a class does to an attribute that is asked for.
    Raises AttributeError with the part that is missing.
    """
    module, _, attributes = name.partition(":")
    try:
        found: Any = importlib.import_module(module)
    except ModuleNotFoundError:
        raise AttributeError(f"there is no module {module}") from None
    for part in filter(None, attributes.split(".")):
        if isinstance(found, ModuleType) and not hasattr(found, part):
            try:
                found = importlib.import_module(f"{found.__name__}.{part}")
            except ModuleNotFoundError:
                raise AttributeError(f"{found.__name__} has no {part}") from None
        elif isinstance(found, type) and not hasattr(found, part) and f"self.{part} = " in _text_of(found):
            return None  # an object has it, whatever it is
        else:
            found = inspect.getattr_static(found, part) if isinstance(found, type) else getattr(found, part)
    return found


@functools.cache
def _text_of(cls: type) -> str:
    """The files in which `cls` and its bases stand."""
    files = {inspect.getsourcefile(base) for base in cls.__mro__ if base is not object}
    return "".join(Path(file).read_text() for file in files if file)


Names = dict[str, str]


def imported(statement: ast.AST) -> Names:
    """What a statement imports from torch and Triton: the name here, and that there as `reached` takes it."""
    if isinstance(statement, ast.ImportFrom) and statement.module and statement.module.split(".")[0] in ROOTS:
        return {alias.asname or alias.name: f"{statement.module}:{alias.name}" for alias in statement.names}
    if isinstance(statement, ast.Import):
        theirs = [alias for alias in statement.names if alias.name.split(".")[0] in ROOTS]
        return {
            alias.asname or alias.name.split(".")[0]: f"{alias.name if alias.asname else alias.name.split('.')[0]}:"
            for alias in theirs
        }
    return {}


def within(scope: ast.AST) -> Iterator[ast.AST]:
    """Everything in a module or a function, but not what is inside its functions."""
    for child in ast.iter_child_nodes(scope):
        yield child
        if not isinstance(child, ast.FunctionDef):
            yield from within(child)


def calls(scope: ast.AST, names: Names | None = None) -> Iterator[tuple[ast.Call, Names]]:
    """Every call inside `scope`, with the imported names that are known where it stands."""
    parts = list(within(scope))
    names = dict(names or {})
    for part in parts:
        names.update(imported(part))
    for part in parts:
        if isinstance(part, ast.Call):
            yield part, names
        elif isinstance(part, ast.FunctionDef):
            yield from calls(part, names)


def dotted(node: ast.expr) -> str | None:
    """`a.b.c` as text; None for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (inner := dotted(node.value)) is not None:
        return f"{inner}.{node.attr}"
    return None


def call_of(node: ast.Call) -> Call:
    starred = any(isinstance(argument, ast.Starred) for argument in node.args)
    names = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
    return Call(
        positional=sum(not isinstance(argument, ast.Starred) for argument in node.args),
        names=names,
        open_ended=starred or len(names) < len(node.keywords),
    )


@functools.cache
def signature_of(function: Any, bound: bool) -> inspect.Signature | None:
    """The signature of what is called, without `self` where it is `bound`; None where C code does not tell."""
    if isinstance(function, staticmethod):
        return signature_of(function.__func__, bound=False)
    if isinstance(function, classmethod):
        return signature_of(function.__func__, bound=True)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return None
    if not bound:
        return signature
    return signature.replace(parameters=list(signature.parameters.values())[1:])


def kind_of(member: Any) -> str:
    """How a function hangs in its class."""
    for kind in (staticmethod, classmethod, property, functools.cached_property):
        if isinstance(member, kind):
            return kind.__name__
    return "method" if callable(member) else "attribute"


def is_theirs(thing: Any) -> bool:
    return getattr(thing, "__module__", "").split(".")[0] in ROOTS


def overridden(cls: type) -> Iterator[tuple[str, type, Any, Any]]:
    """(name, base, theirs, ours) of each method of `cls` that takes the place of one of torch or Triton. What makes
    an object is ours to call.
    """
    for name, ours in vars(cls).items():
        if name in ("__init__", "__new__") or not kind_of(ours).endswith("method"):
            continue
        for base in cls.__mro__[1:]:
            if name in vars(base) and is_theirs(base):
                yield name, base, vars(base)[name], ours
                break


def contract(name: str, theirs: Any) -> inspect.Signature | None:
    """The signature of a method of theirs, without `self`. One that hands on whatever it gets is an operator, whose
    signature stands in the list of operators; None where that does not have it.
    """
    signature = signature_of(theirs, bound=True)
    if signature is not None and any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in signature.parameters.values()):
        operator = vars(OpsHandler).get(name)
        return operator and signature_of(operator, bound=True)
    return signature


def narrower(theirs: inspect.Signature, ours: inspect.Signature) -> list[str]:
    """What calls `theirs` takes and `ours` does not, both without `self`; one line each."""
    kinds = inspect.Parameter
    by_place = [p for p in ours.parameters.values() if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    takes = {p.kind for p in ours.parameters.values()}
    found = []
    place = 0
    for parameter in theirs.parameters.values():
        if parameter.kind in (kinds.VAR_POSITIONAL, kinds.VAR_KEYWORD):
            continue  # what nobody wrote down is nothing to rely on
        mine = ours.parameters.get(parameter.name)
        if parameter.kind is not kinds.KEYWORD_ONLY:
            if place >= len(by_place) and kinds.VAR_POSITIONAL not in takes:
                found.append(f"{parameter.name!r} is handed on by place")
                place += 1
                continue
            if place < len(by_place):
                mine = by_place[place]
            place += 1
        if mine is None and kinds.VAR_KEYWORD not in takes and kinds.VAR_POSITIONAL not in takes:
            found.append(f"{parameter.name!r} is handed on by name")
        if mine is not None and mine.default is kinds.empty and parameter.default is not kinds.empty:
            found.append(f"{parameter.name!r} may be left out")
    names = set(theirs.parameters)
    for parameter in [*by_place[place:], *(p for p in ours.parameters.values() if p.kind is kinds.KEYWORD_ONLY)]:
        if parameter.default is kinds.empty and parameter.name not in names:
            found.append(f"nobody hands on {parameter.name!r}")
    return found


def classes() -> Iterator[type]:
    """Every class of the package that derives from one of torch or Triton."""
    for name in sources():
        module = importlib.import_module(name)
        for thing in vars(module).values():
            if isinstance(thing, type) and thing.__module__ == name and any(map(is_theirs, thing.__mro__)):
                yield thing


def of_bases(cls: type, name: str) -> tuple[type, Any] | None:
    """The base of torch or Triton that defines `name` for `cls`, and what it defines; None where another does."""
    for base in cls.__mro__:
        if name in vars(base):
            return (base, vars(base)[name]) if is_theirs(base) else None
    return None


def rebound(symbol: str, value: Any, home: Callable[..., Any]) -> Iterator[tuple[str, Any]]:
    """(name, function) of what a patch put at `symbol` or into the class there, made in the file of `home`."""
    file = home.__code__.co_filename
    found = vars(value).items() if isinstance(value, type) else [(symbol.rpartition(".")[2], value)]
    for name, member in found:
        function = getattr(member, "__func__", member)
        if isinstance(function, FunctionType) and function.__code__.co_filename == file:
            yield name, function


def symbol_value(symbol: str) -> Any:
    """What `symbol` (a dotted name) is bound to now; for the test that checks each patch is still needed."""
    parts = symbol.split(".")
    for split in range(len(parts) - 1, 0, -1):
        try:
            value = importlib.import_module(".".join(parts[:split]))
        except ModuleNotFoundError:
            continue
        return functools.reduce(getattr, parts[split:], value)
    raise AttributeError(symbol)
