"""Makes packages."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch.export import ExportedProgram
from torch.utils import _pytree as pytree

from inductor_npu import providers
from inductor_npu.codegen.wrapper.fx_wrapper import KERNELS
from inductor_npu.errors import UnpackableError
from inductor_npu.export import weights as weight_files
from inductor_npu.export.archive import FORMAT, digest, write_archive
from inductor_npu.export.compiling import CompiledModel, compile_model, export_model, where_is
from inductor_npu.export.folding import attribute
from inductor_npu.export.kernels import KernelTable
from inductor_npu.export.program import Translator, translate
from inductor_npu.export.signature import results_of, signature_of
from inductor_npu.export.weights import Weight, identity
from inductor_npu.version import __version__

_WEIGHTS, _PROGRAM = "weights.safetensors", "program.json"


def package(
    model: torch.nn.Module | ExportedProgram,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    path: str | Path,
    dynamic_shapes: Any = None,
    weights: Literal["inside", "beside"] = "inside",
    options: Mapping[str, Any] | None = None,
) -> Path:
    """See inductor_npu.package."""
    path = Path(path)
    _check_this_process()
    program = export_model(model, args, kwargs or {}, dynamic_shapes)
    call = _call(program)
    compiled = compile_model(program, options or {})
    used, numbers = _weights(compiled)
    kernels = KernelTable(compiled.graph_module.meta[KERNELS])
    programs = {**_programs(compiled, used, numbers, kernels), "writes_weights": compiled.writes_weights}
    described, files = kernels.members()
    file = weight_files.to_safetensors(used)
    members = {_PROGRAM: json.dumps(programs).encode()}
    place: dict[str, Any] = {"member": _WEIGHTS}
    if weights == "inside":
        members[_WEIGHTS] = file
    else:
        beside = path.with_suffix(".safetensors")
        place = {"file": beside.name, "sha256": digest(file)}
        beside.write_bytes(file)
    manifest = {
        "format": FORMAT,
        "versions": {"inductor-npu": __version__, "torch": torch.__version__},
        **_device(),
        "machine": kernels.machine(),
        "signature": signature_of(program, compiled.written_inputs),
        "call": call,
        "kernels": described,
        "weights": {**place, "list": weight_files.described(used), "unused": _unused(program, used)},
    }
    write_archive(path, manifest, {**members, **files})
    return path


def _programs(
    compiled: CompiledModel, used: Sequence[Weight], numbers: Mapping[str, int], kernels: KernelTable
) -> dict[str, Any]:
    """What computes constants of weights, and what runs the model."""
    of_weights = {identity(weight.tensor): number for number, weight in enumerate(used)}
    sources = {name: of_weights[identity(value)] for name, value in _sources(compiled).items()}
    try:
        folding = Translator(sources, kernels).program(compiled.folded.nodes, compiled.folded.results)
        return {"folding": folding, "program": translate(compiled.graph_module, numbers, kernels)}
    except UnpackableError as error:
        place = where_is(compiled.program, str(error.fields.get("operator", "")))
        raise UnpackableError(reason=error.fields["reason"], where=place) from error


def _check_this_process() -> None:
    """Raises UnpackableError where this process would make no package that others can run."""
    if modes := [f"{name}={value}" for name, value in providers.compile_modes().items() if value != "0"]:
        reason = f"with {', '.join(modes)} this process compiles kernels that no other process can run"
        raise UnpackableError(reason=reason, where="")


def _weights(compiled: CompiledModel) -> tuple[list[Weight], dict[str, int]]:
    """The weights that programs need, and the number of each constant of the compiled graph, by its name: weights come
    first, then what is folded, in order.
    """
    module = compiled.graph_module
    constants = {str(node.target): getattr(module, str(node.target)) for node in module.graph.find_nodes(op="get_attr")}
    constants = {name: value for name, value in constants.items() if isinstance(value, torch.Tensor)}
    folded = {identity(value): position for position, value in enumerate(compiled.folded.values.values())}
    needed = {identity(value) for value in constants.values()} - folded.keys()
    needed |= {identity(value) for value in _sources(compiled).values()}
    known = weight_files.named(_tensors(compiled.program))
    used = [weight for weight in known if identity(weight.tensor) in needed]
    named = {identity(weight.tensor) for weight in used}
    made_by_inductor = {name: value for name, value in constants.items() if identity(value) in needed - named}
    used += weight_files.named(made_by_inductor)
    _check_devices(used)
    numbers = {identity(weight.tensor): number for number, weight in enumerate(used)}
    numbers.update({key: len(used) + position for key, position in folded.items()})
    return used, {name: numbers[identity(value)] for name, value in constants.items()}


def _tensors(program: ExportedProgram) -> dict[str, torch.Tensor]:
    """Parameters, buffers and constants by their names in the model."""
    constants = {name: value for name, value in program.constants.items() if isinstance(value, torch.Tensor)}
    return {**program.state_dict, **constants}


def _sources(compiled: CompiledModel) -> dict[str, torch.Tensor]:
    """What constants are folded from, by the names of their attributes."""
    names = [str(node.target) for node in compiled.folded.nodes if node.op == "get_attr"]
    return {name: attribute(compiled.module, name) for name in names}


def _check_devices(weights: Sequence[Weight]) -> None:
    for weight in weights:
        if weight.tensor.device.type != "npu":
            reason = f"its constant {weight.names[0]} is on {weight.tensor.device}, and a package is for npu"
            raise UnpackableError(reason=reason, where="")


def _unused(program: ExportedProgram, used: Sequence[Weight]) -> list[str]:
    """Names of weights that no program needs; who updates all weights gives those, too."""
    names = {name for weight in used for name in weight.names}
    return [name for name in _tensors(program) if name not in names]


def _device() -> dict[str, Any]:
    """What device the package is for, with what a process without Python has to know of it."""
    target = providers.current_target()
    facts = {"name": target.name, "memory": target.memory}
    return {
        "provider": providers.current_provider().name,
        "target": {**facts, "vector_cores": target.vector_cores, "max_grid": target.max_grid},
    }


def _call(program: ExportedProgram) -> dict[str, Any]:
    """How Python's arguments become a flat list, and a flat list Python's results, as torch.export writes it."""
    spec = program.call_spec
    try:
        specs = {"in": pytree.treespec_dumps(spec.in_spec), "out": pytree.treespec_dumps(spec.out_spec)}
        return {**specs, "results": results_of(program)}
    except NotImplementedError as error:
        reason = f"its arguments or results have a type that a file cannot name: {error}"
        raise UnpackableError(reason=reason, where="") from error
