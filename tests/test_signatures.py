"""What we rely on in torch and Triton is there and takes our calls: a new release fails here first, by name."""

from __future__ import annotations

import ast
import importlib
import inspect

from torch._inductor.ops_handler import OpsHandler

from inductor_npu.setup import compat
from tests import signatures

# Names of some versions, or builds, only: asked for before they are used, or called by versions that have them.
OF_SOME_VERSIONS = {
    "torch._inductor.runtime:benchmarking.register_benchmarker": "from torch 2.12 on",
    "torch.distributed:.ProcessGroupNCCL": "in builds with NCCL",
    "torch.distributed:.ProcessGroupNCCL.Options": "in builds with NCCL",
    "NpuAutotuner.release_benchmark_artifacts": "from torch 2.13 on; it is their call that is overridden",
}


def test_every_name_that_we_import_is_there() -> None:
    missing = []
    for module, tree in signatures.sources().items():
        for name in {name for node in ast.walk(tree) for name in signatures.imported(node).values()}:
            try:
                signatures.reached(name)
            except AttributeError as error:
                if name not in OF_SOME_VERSIONS:
                    missing.append(f"{module}: {name} ({error})")
    assert not missing


def test_every_function_of_theirs_takes_our_calls() -> None:
    refused = []
    for module, tree in signatures.sources().items():
        for call, names in signatures.calls(tree):
            first, *rest = (signatures.dotted(call.func) or "").split(".")
            owner = signatures.CLASSES.get(".".join([first, *rest[:-1]]))
            if owner is not None:
                name = f"{owner}.{rest[-1]}"
            elif first in names and first != "V":
                name = f"{names[first]}.{'.'.join(rest)}".rstrip(".")
            else:
                continue
            where = f"{module}:{call.lineno}: {name}"
            try:
                signature = signatures.signature_of(signatures.reached(name), bound=owner is not None)
            except AttributeError as error:
                if name not in OF_SOME_VERSIONS:
                    refused.append(f"{where} ({error})")
                continue
            reason = signature and signatures.call_of(call).fits(signature)
            if reason:
                refused.append(f"{where}{signature}: {reason}")
    assert not refused


def test_every_method_of_theirs_takes_our_calls() -> None:
    """What is called through `self` and `super()` in classes that derive from theirs."""
    refused = []
    for module, tree in signatures.sources().items():
        for definition in ast.walk(tree):
            if not isinstance(definition, ast.ClassDef):
                continue
            cls = getattr(importlib.import_module(module), definition.name, None)
            if cls is None or not any(map(signatures.is_theirs, cls.__mro__)):
                continue
            for node in ast.walk(definition):
                if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
                    continue
                of, name = ast.unparse(node.func.value), node.func.attr
                if name == "__new__":
                    continue
                if of == "super()":
                    bases = [b for b in cls.__mro__[1:] if name in vars(b)]
                    if not bases and f"{cls.__name__}.{name}" not in OF_SOME_VERSIONS:
                        refused.append(f"{module}:{node.lineno}: no base of {cls.__name__} has {name} any more")
                        continue
                    found = (bases[0], vars(bases[0])[name]) if bases and signatures.is_theirs(bases[0]) else None
                elif of in ("self", "cls"):
                    found = signatures.of_bases(cls, name)
                else:
                    continue
                if found is None:
                    continue
                base, function = found
                signature = signatures.signature_of(function, bound=True)
                reason = signature and signatures.call_of(node).fits(signature)
                if reason:
                    refused.append(f"{module}:{node.lineno}: {base.__name__}.{name}{signature}: {reason}")
    assert not refused


def test_what_takes_the_place_of_theirs_takes_every_call_that_theirs_takes() -> None:
    narrower = []
    for cls in signatures.classes():
        for name, base, theirs, ours in signatures.overridden(cls):
            where = f"{cls.__module__}.{cls.__name__}.{name} for {base.__module__}.{base.__name__}.{name}"
            signature, own = signatures.contract(name, theirs), signatures.signature_of(ours, bound=True)
            if signature is not None and own is not None:
                narrower += [f"{where}: {line}" for line in signatures.narrower(signature, own)]
            kinds = signatures.kind_of(theirs), signatures.kind_of(ours)
            if kinds[0] != kinds[1] and name not in vars(OpsHandler):  # operators are called through an object
                narrower.append(f"{where}: a {kinds[0]} there, a {kinds[1]} here")
    assert not narrower


def test_patches_take_every_call_that_the_original_takes() -> None:
    narrower = []
    for patch in (*compat.PATCHES, *compat.EXTENSIONS):
        importlib.import_module(patch.when)
        value = signatures.symbol_value(patch.symbol)
        for name, function in signatures.rebound(patch.symbol, value, patch.apply):
            original = getattr(function, "__wrapped__", None)
            if original is not None:
                theirs = inspect.signature(original)
                ours = inspect.signature(function, follow_wrapped=False)
                narrower += [f"{patch.symbol} ({name}): {line}" for line in signatures.narrower(theirs, ours)]
    assert not narrower
