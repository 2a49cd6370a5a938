"""The exceptions and warnings that users see: what happened, where, which limit, what to do next.

Each class carries its message as a template, so that tests and documentation can name every message there is.
"""

from __future__ import annotations

from typing import Any


class NpuError(RuntimeError):
    """Base of all errors that inductor-npu raises on purpose. `template` is filled with the keyword arguments."""

    template = "{message}"

    def __init__(self, **fields: Any) -> None:
        super().__init__(self.template.format(**fields))
        self.fields = fields


class NpuWarning(UserWarning):
    """Category of every warning that inductor-npu gives, so that one filter reaches them all."""


class UnknownProviderError(NpuError):
    """INDUCTOR_NPU_PROVIDER names something that cannot provide a device."""

    template = "INDUCTOR_NPU_PROVIDER={name!r} is not a provider; use one of: {known} (or unset it for the default)"


class UnknownTargetError(NpuError):
    """INDUCTOR_NPU_TARGET names a chip that nobody registered."""

    template = (
        "INDUCTOR_NPU_TARGET={name!r} is not a known chip; use one of: {known}, or add yours with "
        "inductor_npu.target.register_target"
    )


class UnknownChipError(UnknownTargetError):
    """torch_npu drives a chip that nobody registered."""

    template = (
        "no facts are known about this machine's chip {name!r}; set INDUCTOR_NPU_TARGET to the most similar of: "
        "{known}, or add yours with inductor_npu.target.register_target"
    )


class UnknownGraphPassError(NpuError):
    """INDUCTOR_NPU_GRAPH_PASSES, or inductor_npu.config.graph_passes, names an unknown pass."""

    template = "{name!r} is not a graph pass that can be switched; use all, none, or names of: {known}"


class MovedSymbolError(NpuError):
    """A part of torch or Triton that a patch needs has moved: the version is newer than those tested."""

    template = (
        "{symbol} of this torch or Triton does not fit: {reason}. Without it: {purpose} Install a tested version "
        "(README), or set INDUCTOR_NPU_PROVIDER=none to leave torch alone"
    )


class ProviderMissingError(NpuError):
    """The provider that was asked for is not installed."""

    template = (
        "INDUCTOR_NPU_PROVIDER={name!r} needs the package {package}, which is not installed; "
        "install it or use {other!r}"
    )


class ProviderChangeError(NpuError):
    """A second provider was asked for in a process that already has one."""

    template = "device npu is already provided by {active!r} in this process; start a new one to use {name!r}"


class PrivateUse1TakenError(NpuError):
    """Another package already owns torch's only slot for an external device."""

    template = (
        "another package has taken torch's PrivateUse1 backend, as device {owner!r}; it stays as it is. Only one such "
        "device can exist in a process: uninstall or disable that package to use npu"
    )


class KernelCompileError(NpuError):
    """A generated kernel does not compile, and falling back to eager was ruled out."""

    template = (
        "kernel {kernel} (operators: {operators}) does not compile for npu: {reason}. It cannot run in eager either "
        "because {why}. Next: run with TORCH_LOGS=output_code to see its source{hint}"
    )


class AscendRefusalError(NpuError):
    """Ascend's compiler, on a machine with its chip, does not compile a kernel."""

    template = (
        "Ascend's compiler does not compile kernel {kernel}: {reason}. Next: `inductor-npu check` with this program "
        "says which part of the kernel it refuses, and writes a report for the compiler's developers"
    )


class AccuracyError(NpuError):
    """In accuracy mode: a kernel's results differ from those of its operators in eager."""

    template = (
        "kernel {kernel} ({operators}) differs from its operators in eager: {different} of {elements} elements of "
        "{argument} ({dtype}), first element {index}: {actual} in place of {expected}, which may differ by "
        "{allowed:.3g}. It came from:\n{lines}\n"
        "Next: `python {folder}/reproduce.py` runs both again on the inputs saved there"
    )


class KernelTooLargeError(NpuError):
    """A generated kernel does not fit the target with its blocks, and no plan with smaller tiles is left."""

    template = "kernel {kernel} does not fit {target} with its blocks {blocks}: {reason}"


class UnsupportedLaunchError(NpuError):
    """A kernel needs a launch that the runtime of a GPU does not make."""

    template = "kernel {kernel} needs {reason}, which launches on npu do not have. {advice}, or run it on cuda"


class DeviceIsBuiltError(NpuError):
    """The device npu was to be built where its provider brings one that is built already."""

    template = (
        "provider {provider} brings device npu built already, so there is nothing to build; {variable}={other} builds "
        "the embedded NPU"
    )


class NoCompilerError(NpuError):
    """The device npu must be built, and there is no C++ compiler."""

    template = (
        "{device} must be built once, which needs a C++20 compiler, and none was found (tried: "
        "{tried}). Install one, e.g. `apt-get install g++` or `dnf install gcc-c++`, or set CXX to its path"
    )


class DeviceBuildError(NpuError):
    """The device npu does not compile."""

    template = (
        "building {device} failed while {step}. It needs a compiler with C++20 (g++ 11, clang++ 14 or "
        "later; CXX chooses one) and Python's headers (e.g. `apt-get install g++ python3-dev`). The command was:\n"
        "{command}\n{output}"
    )


class NoCollectivesError(NpuError):
    """torch.distributed was asked for where the provider has no collectives."""

    template = (
        "there are no collectives for tensors of npu: {reason}. torch.distributed works with the embedded NPU "
        "(INDUCTOR_NPU_PROVIDER=simulator), with torch_npu, and on GPUs with NCCL"
    )


class NoCudaError(NpuError):
    """Provider `cuda` was asked for, and something of CUDA is missing."""

    template = "provider cuda makes device npu of a GPU, and {missing} was not found. {advice}"


class LauncherBuildError(NpuError):
    """The module that launches kernels on torch_npu's streams does not compile."""

    template = (
        "building inductor-npu's kernel launcher for torch_npu failed; kernels are launched by Ascend's Triton, which "
        "compiles such a module for each signature. It needs a compiler with C++17 (g++ 9, clang++ 10 or later; CXX "
        "chooses one) and Python's headers. The command was:\n{command}\n{output}"
    )


class PackageRuntimeBuildError(NpuError):
    """What loads packages with torch_npu does not compile."""

    template = (
        "building what loads packages with torch_npu failed. It needs a compiler with C++20 (g++ 11, clang++ 14 or "
        "later; CXX chooses one) and Python's headers (e.g. `apt-get install g++ python3-dev`). The command was:\n"
        "{command}\n{output}"
    )


class NoPackagesError(NpuError):
    """The provider of device npu has no packages."""

    template = (
        "the provider of device npu, {provider}, neither makes nor loads packages: it names no packaged_kernels and "
        "package_runtime (inductor_npu/providers.py)"
    )


class NoCppProgramsError(NpuError):
    """C++ programs cannot link the runtime of this provider."""

    template = (
        "C++ programs run packages on the embedded NPU only, and device npu of this process is provided by {provider}: "
        "torch_npu's library needs Python. Set INDUCTOR_NPU_PROVIDER=simulator, or load the package in Python"
    )


class CacheDirectoryError(NpuError):
    """A C++ part must be built on this machine, and no directory can hold it."""

    template = (
        "the C++ part of device npu cannot be built in {directory}: {reason}. Set INDUCTOR_NPU_CACHE_DIR to a "
        "directory that can be written and has 100 MB of space"
    )


class SettingError(NpuError):
    """An environment variable, or the knob of `inductor_npu.config` that it sets, has no valid value."""

    template = "{variable}={value!r} is not valid: it must be {expected}"


class CacheSettingError(SettingError):
    """An environment variable of the compile cache has no valid value."""


class MemoryFaultError(NpuError):
    """Base of the memory faults that checked mode (INDUCTOR_NPU_CHECKED=1) finds."""


class OutOfBoundsError(MemoryFaultError):
    """A kernel accessed memory outside the tensor that it was given."""

    template = (
        "kernel {kernel}{operators} is out of bounds: program {program} {access} {bytes} bytes at byte {offset} of "
        "{argument}, {room}. Next: check the mask and the sizes that the address is made of, at {where}"
    )


class RaceError(MemoryFaultError):
    """Two programs of one launch accessed the same byte, and one of them wrote it."""

    template = (
        "kernel {kernel}{operators} has a race between programs: program {program} {access} {bytes} bytes at byte "
        "{offset} of {argument}, which {other} {other_access} in the same launch; their order is undefined. "
        "Next: let one program do both, use an atomic, or split the launch in two; at {where}"
    )


class UnwrittenReadError(MemoryFaultError):
    """A kernel read memory that nobody has written since it was allocated."""

    template = (
        "kernel {kernel}{operators} reads memory that nobody has written: program {program} {access} {bytes} bytes at "
        "byte {offset} of {argument}. Next: fill the tensor (torch.zeros in place of torch.empty), mask the load, or "
        "find the kernel before this one that should have written it; at {where}"
    )


class MemoryLeakError(NpuError):
    """What was allocated in a `torch.npu.memory.leak_check` is still in use after it."""

    template = (
        "{count} allocations ({size} bytes) that were made in the leak check are still in use after it: "
        "{allocations}. Drop what refers to these tensors (torch.npu.memory_allocated counts them), or run once before "
        "the check what keeps memory on purpose, such as compiled functions and optimizers"
    )


class CacheMissError(NpuError):
    """Something had to be compiled, and INDUCTOR_NPU_CACHE=must-hit rules that out."""

    template = (
        "INDUCTOR_NPU_CACHE=must-hit, and {what}: {why}. Next: run once with INDUCTOR_NPU_CACHE=on and the same "
        "settings, or import a cache (`inductor-npu cache import FILE`)"
    )


class BundleError(NpuError):
    """`inductor-npu cache import` was given a file that it cannot import."""

    template = "{file} cannot be imported: {reason}"


class PackageError(NpuError):
    """A package does not fit this process, or is damaged. Nothing of it was executed."""

    template = "{message}"


class UnpackableError(NpuError):
    """A model has something that a package cannot hold."""

    template = "the model cannot be packaged: {reason}{where}"


class NoCppWrapperError(NpuError):
    """Inductor was asked for code in C++, which there is not for npu."""

    template = (
        "AOTInductor and config.cpp_wrapper generate C++ code, which there is not for npu: "
        'torch.compile(mode="reduce-overhead") launches the kernels of a graph from C++ by one call, and '
        "inductor_npu.package(model, args, path=...) makes a file that inductor_npu.load_package or "
        "torch._inductor.aoti_load_package loads"
    )


class NoGradientError(NpuError):
    """`inductor_npu.warmup` or `explain` was asked for the backward pass of something that has none."""

    template = (
        "{function} cannot be called with backward=True: no tensor that it returns needs a gradient. Leave backward "
        "out, or call it where gradients are enabled, with parameters or inputs that need them"
    )


class DeviceSettingError(SettingError):
    """An environment variable that sizes the embedded NPU has no valid value."""


class NoAscendEnvironmentError(NpuError):
    """Ascend's compiler is in none of the places that are searched."""

    template = (
        "Ascend's compiler (packages triton-ascend and ascendnpu-ir) was not found; searched: {looked}. Create an "
        "environment for it with `{command}` in a checkout of inductor-npu, or set INDUCTOR_NPU_ASCEND_ENV to the "
        "folder of an environment that has it"
    )


class AscendPlatformError(NpuError):
    """Ascend's compiler does not exist for this machine."""

    template = (
        "Ascend's compiler exists for {supported}; this is {system} on {machine}. Check kernels on such a machine"
    )


class BrokenAscendEnvironmentError(NpuError):
    """The environment of Ascend's compiler cannot be used as it is."""

    template = "the environment of Ascend's compiler at {environment} cannot be used: {reason}. {advice}"


class UnknownAscendTargetError(NpuError):
    """A kernel was to be compiled for a chip that Ascend's compiler does not know."""

    template = "Ascend's compiler does not know the chip {name!r}; it knows: {known}"


class HivmSyntaxError(NpuError):
    """The final IR of Ascend's compiler holds text that the reader does not understand."""

    template = (
        "line {line} of the final HIVM IR cannot be read: {reason}: {text}. The kernel has no verdict; please report "
        "it with the IR and the version of Ascend's compiler"
    )


class UncollectableKernelError(NpuError):
    """A kernel cannot be extracted from its program to be compiled elsewhere."""

    template = "kernel {kernel} cannot be extracted from its program to be checked: {reason}"


class NoProgramError(NpuError):
    """`inductor-npu check` was given a file that does not exist."""

    template = (
        "there is no file {name}. Give a script's path, path.py::function, package.module:function, or -m and the name "
        "of a module"
    )


class NoExampleInputsError(NpuError):
    """`inductor-npu check` was given a function with arguments, and nothing to call it with."""

    template = (
        "{function} needs arguments, and module {module} does not say which: add a function {names} that returns them "
        "(a tensor, a tuple, or a dictionary of keyword arguments)"
    )


class OtherTargetError(NpuError):
    """A check in this process for another chip than the one for which its kernels are generated."""

    template = (
        "this process generates kernels for {own}, so they cannot be checked for {target}: set "
        "INDUCTOR_NPU_TARGET={target} before it starts, or use check_program or the command inductor-npu check"
    )


class LintFileError(NpuError):
    """`inductor-npu lint` was given a file that it cannot lint."""

    template = "{file} cannot be linted: {reason}"
