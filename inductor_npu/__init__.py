"""inductor-npu: a TorchInductor backend for NPUs, and an embedded NPU that runs it on any Linux machine.

Nothing of this package has to be imported: `import torch` calls `_autoload` through the entry point group
`torch.backends`, and `torch.compile` then works on `npu` tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal

from inductor_npu.diagnostics.compile_time.record import CompileTimes, compile_times, record_compile_times
from inductor_npu.diagnostics.compile_time.times import GraphTime, PhaseTime
from inductor_npu.version import __version__

if TYPE_CHECKING:
    from contextlib import AbstractContextManager
    from pathlib import Path

    import torch
    from torch.export import ExportedProgram

    from inductor_npu.cache.warmup import Warmup
    from inductor_npu.diagnostics.explanation.explanation import Explanation
    from inductor_npu.diagnostics.explanation.recorder import Recorded
    from inductor_npu.export.loading import LoadedPackage

__all__ = [
    "CompileTimes",
    "GraphTime",
    "PhaseTime",
    "__version__",
    "compile_times",
    "enable",
    "explain",
    "load_package",
    "package",
    "record_compile_times",
    "record_explanation",
    "warmup",
]


def enable(provider: str = "simulator") -> None:
    """Makes the device `npu` available in this process, provided by `provider`.

    Needed only where `import torch` did not do it already: on a machine with another accelerator (CUDA, XPU, ...) the
    embedded NPU appears when it is asked for, with this call or with INDUCTOR_NPU_PROVIDER=simulator. Call it before
    the first use of any device. Calling it again with the provider that is active does nothing.

    provider: "ascend" (torch_npu drives real chips) or "simulator" (the embedded NPU).

    Raises (inductor_npu.errors) UnknownProviderError, ProviderMissingError if its package is not installed,
    ProviderChangeError if another one is active in this process, PrivateUse1TakenError if torch already has another
    device of this kind.
    """
    from inductor_npu.setup import autoload

    autoload.enable(provider)


def warmup(
    function: Callable[..., Any], *examples: Any, backward: bool = False, wait: float = 600.0, **keywords: Any
) -> Warmup:
    """Calls `function(*examples, **keywords)` once, so that all it compiles is compiled when it is needed. Of processes
    that do so at once (ranks), one compiles, while the others wait, and then load what it compiled.

    function: what torch.compile returned, a module whose compile() was called, or a function that calls such.
    examples, keywords: as in real calls: the same dtypes, devices and shapes; of shapes that vary, any (call warmup
        twice, with two of them, if nothing says that they vary: torch.compile compiles for any shape then).
    backward: whether to compile the backward pass, too: through all results that need a gradient.
    wait: seconds after which a process stops waiting, and compiles for itself. One that dies is not waited for.

    Needs no process group. The processes share what they compile through the caches, so they need the same
    TORCHINDUCTOR_CACHE_DIR and INDUCTOR_NPU_CACHE_DIR (by default those are the user's). Where torch.distributed is
    initialised, collectives may be part of the call: then every rank has to call warmup, and waiting happens only where
    something is compiled, never around a collective.

    Gradients, the module's buffers and the states of random number generators are afterwards as they were before; what
    else the call changes, such as its arguments, stays changed. Device npu has finished when this returns.

    Returns what this process compiled and loaded, and how long it waited (inductor_npu.cache.warmup.Warmup).

    Raises what the call raises; inductor_npu.errors.NoGradientError if there is nothing to go backward through.
    """
    from inductor_npu.cache.warmup import warm_up

    return warm_up(function, examples, keywords, backward, wait)


def explain(function: Callable[..., Any], *examples: Any, backward: bool = False, **keywords: Any) -> Explanation:
    """Calls `torch.compile(function)(*examples, **keywords)` once and says what torch.compile did: graphs; graph breaks
    with reason and line; recompiles with the guards that failed; kernels with their operators, lines and bytes; what
    ran in eager, and why; caches; compile time by phase. `print` shows it as tables, and it is plain data
    (inductor_npu.diagnostics.explanation.explanation.Explanation).

    function: a function or module, or what torch.compile returned for one. What an earlier call compiled is not
        compiled again, and not explained; `torch.compiler.reset()` before makes this one the first. Give a compiled
        function that was called before, and other sizes, to see why it is compiled again.
    examples, keywords: as in a real call.
    backward: whether to call the backward pass, too, through all results that need a gradient.

    Gradients, the module's buffers and the states of random number generators are afterwards as they were before; what
    else the call changes, such as its arguments, stays changed.

    Raises what the call raises; inductor_npu.errors.NoGradientError if there is nothing to go backward through.
    """
    from inductor_npu.diagnostics.explanation.explain import explain_call

    return explain_call(function, examples, keywords, backward)


def record_explanation() -> AbstractContextManager[Recorded]:
    """Observes what is compiled inside a `with` block, such as some steps of a training loop:

    with inductor_npu.record_explanation() as recorded:
        ...
    print(recorded.explanation)
    """
    from inductor_npu.diagnostics.explanation import recorder

    return recorder.record_explanation()


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
    """Exports `model`, compiles it for `npu` and writes all that a process needs to run it into the file `path`, which
    `load_package`, torch._inductor.aoti_load_package and C++ programs load, without Triton, LLVM or Python
    (docs/export.md).

    model: a module, in the mode (eval) in which it is to run, or what torch.export.export returned. It stays where it
        is; its device does not matter.
    args, kwargs: example arguments, as for torch.export.export. Of an exported program its own are used.
    path: by convention a name that ends in .pt2; aoti_load_package asks for that.
    dynamic_shapes: which sizes may vary, as for torch.export.export.
    weights: "inside" the file, or "beside" it, in a file of the same name that ends in .safetensors.
    options: settings of Inductor, as for torch.compile.

    Returns `path`. Raises inductor_npu.errors.UnpackableError for what a package cannot hold (control flow, operators
    that are not of ATen, ...), NoCompilerError where no C++ compiler is there to link kernels, and what torch.export
    and torch.compile raise.
    """
    from inductor_npu.export.packaging import package

    return package(model, args, kwargs, path=path, dynamic_shapes=dynamic_shapes, weights=weights, options=options)


def load_package(
    path: str | Path, device: torch.device | str | int | None = None, weights: str | Path | None = None
) -> LoadedPackage:
    """Loads a package onto a device. It is called as the model was; weights can be updated in place
    (inductor_npu.export.loading.LoadedPackage). All of the file is verified before any of it is used.

    path: what `package` wrote.
    device: an npu device, by default the current one.
    weights: the file with the weights of a package that has them beside it, by default the one that it names, in its
        own folder.

    Raises inductor_npu.errors.PackageError, one line, where the package is damaged, or for another version, provider,
    target or processor; the process goes on.
    """
    from inductor_npu.export.loading import load_package

    return load_package(path, device, weights)


def _autoload() -> None:
    """Entry point of group `torch.backends`: chooses the device's provider and prepares the rest to load when it is
    first used.

    Runs at the end of `import torch`. Never raises: whatever goes wrong becomes one warning, and torch stays as it was.
    """
    from inductor_npu.setup import autoload

    autoload.run()
