"""Who provides the device `npu`: the only place in the package that asks.

A provider brings the PrivateUse1 backend named `npu`, the Python module `torch.npu` and a Triton backend for target
`npu`. Importing this module is cheap: nothing of Inductor, Triton or the device is touched.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import os
import pkgutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from inductor_npu.errors import (
    DeviceIsBuiltError,
    NoPackagesError,
    ProviderMissingError,
    UnknownChipError,
    UnknownProviderError,
    UnknownTargetError,
)
from inductor_npu.target import NpuTarget, get_target, known_targets

PROVIDER_VARIABLE = "INDUCTOR_NPU_PROVIDER"
TARGET_VARIABLE = "INDUCTOR_NPU_TARGET"
DEFAULT_TARGET = "Ascend910B3"


@dataclass(frozen=True)
class Provider:
    """One way to get a device `npu`. What belongs to the provider is named, as "module:function" or "module:class", so
    that nothing above has to import it; None where a provider has no such thing.

    package: the module that must be importable.
    runtime: what the device npu is built of (device/runtime.py); None where it is not built here.
    install: called when the provider is chosen, once torch is there: makes its Triton backend that of target `npu`.
    raw_stream: `(device index) -> int`, the handle of the current stream. Generated code imports it.
    interface: the class that Dynamo and Inductor ask about the device.
    chip: `() -> str | None`, the name of the target that the machine has, where the provider can tell.
    empty_strided: `(sizes, strides, dtype) -> Tensor`, allocates on the current device with the least overhead (None:
        torch.empty_strided does). Generated code imports it.
    device_guard, set_device: what generated code writes to make a device current, for a block and for good, with the
        least overhead.
    compile_only_driver: a driver of Triton with a class method `activate` that makes it the driver of a forked process,
        which compiles but never touches the device (None: codegen/scheduling/ahead_of_time.py forks none).
    most_children: how many of such processes are of use.
    compile_modes: `() -> dict[str, str]`, the modes of this process that change compiled kernels, by name.
    is_observed: `() -> bool`, whether each launch of a kernel that is loaded now is observed.
    known_error: `(error, kernel name) -> Exception | None`, what to raise in place of an error of the provider's
        compiler.
    captured_calls: the module whose functions capture compiled functions (device/captured_calls.py says
        which).
    packaged_kernels: the module that makes kernels part of packages (simulator/packaged_kernels.py says how).
    package_runtime: `() -> module` with the class Package, which loads packages.
    operators: namespaces of operators that each process with the provider has, beside ATen's.
    module_lines: `() -> Sequence[str]`, lines of the provider's own in the header of each generated module.
    most_padding: how many times as many scores as there are kernels of attention may compute, because blocks are powers
        of two, before the provider's library is faster in training.
    convolves_windows: whether kernels of convolutions are as fast as the provider's library also where windows of more
        than one element overlap.
    convolves_as: the device type, "cpu" or "cuda", whose operators convolve for the provider: compiled code knows how
        they lay out results (device/convolution_layouts.py). None: results are contiguous.
    convolves_like_cuda: whether the provider's library is quicker with operands channels last, as PyTorch's CUDA
        operators are.
    asserts: whether kernels are compiled with their asserts of indices.
    float64: whether kernels may compute in that type.
    """

    name: str
    package: str
    raw_stream: str
    interface: str
    chip: str | None = None
    runtime: str | None = None
    install: str | None = None
    empty_strided: str | None = None
    device_guard: str = "torch.npu.device"
    set_device: str = "torch.npu.set_device"
    compile_only_driver: str | None = None
    most_children: int = 0
    compile_modes: str | None = None
    is_observed: str | None = None
    known_error: str | None = None
    captured_calls: str | None = None
    packaged_kernels: str | None = None
    package_runtime: str | None = None
    operators: tuple[str, ...] = ()
    module_lines: str | None = None
    most_padding: float = math.inf
    convolves_windows: bool = True
    convolves_as: str | None = None
    convolves_like_cuda: bool = False
    asserts: bool = True
    float64: bool = True

    def is_installed(self) -> bool:
        """Whether the provider's package can be found (it is not imported to find out). A folder of its name without
        code, which Python takes for a package, too, is none.
        """
        return _is_found(self.package, self.package in sys.modules, tuple(sys.path))


@functools.cache
def _is_found(package: str, is_imported: bool, path: tuple[str, ...]) -> bool:
    """Whether `package` has code. What it depends on are arguments, since Python reads each folder of `path` anew for a
    package that is not there, and each kernel asks dozens of times.
    """
    spec = importlib.util.find_spec(package)
    return spec is not None and spec.origin is not None


ASCEND = Provider(
    "ascend",
    "torch_npu",
    # The one that does not wait for torch_npu's queue of launches: ours go into the same queue.
    "torch_npu._C:_npu_getCurrentRawStreamNoWait",
    "inductor_npu.ascend_chip.interface:AscendInterface",
    compile_only_driver="inductor_npu.ascend_chip.compile_only:CompileOnlyDriver",
    most_children=8,  # a kernel takes seconds, nearly all of them in programs of Ascend's
    known_error="inductor_npu.ascend_chip.refusals:known_error",
    captured_calls="inductor_npu.ascend_chip.captured_calls",
    packaged_kernels="inductor_npu.ascend_chip.packaged_kernels",
    package_runtime="inductor_npu.ascend_chip.packages:runtime",
    operators=("npu",),
    module_lines="inductor_npu.ascend_chip.other_backends:module_lines",
    # The option that keeps them has Ascend's Triton print, and write a folder, for each kernel.
    asserts=False,
    float64=False,
)
SIMULATOR = Provider(
    "simulator",
    "inductor_npu",
    "inductor_npu.device:get_raw_stream",
    "inductor_npu.device_interface.interface:NpuInterface",
    runtime="inductor_npu.simulator.host.runtime:RUNTIME",
    install="inductor_npu.simulator.triton_backend.selection:install",
    empty_strided="inductor_npu.device:empty_strided",
    device_guard="torch.npu._DeviceGuard",
    set_device="torch.npu._set_device",
    compile_only_driver="inductor_npu.simulator.triton_backend.compile_only:CompileOnlyDriver",
    # A ResNet's training step, whose compile takes 25.5 s, took 22.7 with one child, 19.9 with two and 19.7 with three.
    most_children=2,
    # Kernels of attention, forward and backward, heads of 64, to the library: lengths of 64, 128 and 512 (no padding)
    # 1.5, 1.2 and 1.0 times as fast; of 65 (3.9 times the scores) 0.8; of 197 (1.7 times) 0.8. In inference the library
    # saves less than its threads take from the kernel after it: a ViT of 65 and 197 tokens is 1.1 and 1.04 times as
    # fast with kernels only.
    most_padding=1.5,
    # Windows of 3 x 3 take 0.4 to 0.9 of the library's time in float32 as kernels, images of one element 0.8 to 2.5.
    convolves_windows=False,
    convolves_as="cpu",
    captured_calls="inductor_npu.device.captured_calls",
    packaged_kernels="inductor_npu.simulator.packaged_kernels",
    # Importing it makes the embedded NPU the device.
    package_runtime="inductor_npu.device.npu.runtime:extension",
    compile_modes="inductor_npu.simulator.triton_backend.modes:compile_modes",
    is_observed="inductor_npu.simulator.triton_backend.observer:is_observing",
)
CUDA = Provider(
    "cuda",
    "inductor_npu.cuda",
    "inductor_npu.device:get_raw_stream",
    "inductor_npu.device_interface.interface:NpuInterface",
    chip="inductor_npu.cuda.chips:name_of_the_chip",
    runtime="inductor_npu.cuda.runtime:RUNTIME",
    install="inductor_npu.cuda.installation:install",
    empty_strided="inductor_npu.device:empty_strided",
    device_guard="torch.npu._DeviceGuard",
    set_device="torch.npu._set_device",
    compile_only_driver="inductor_npu.cuda.triton_backend.compile_only:CompileOnlyDriver",
    most_children=8,  # MiniLM compiled cold in 6.7 s with eight and in 7.7 s with two, on 16 cores
    captured_calls="inductor_npu.device.captured_calls",
    convolves_windows=False,
    convolves_as="cuda",
    convolves_like_cuda=True,
)
PROVIDERS = {provider.name: provider for provider in (ASCEND, SIMULATOR, CUDA)}
NO_PROVIDER = "none"


def select_provider() -> Provider | None:
    """The provider for this process, or None where torch is to be left as it is.

    `INDUCTOR_NPU_PROVIDER` decides where it is set; otherwise `ascend` where torch_npu is installed, `simulator`
    where torch has no other accelerator. Raises UnknownProviderError or ProviderMissingError if the variable cannot
    be honoured.
    """
    name = os.environ.get(PROVIDER_VARIABLE, "").strip().lower()
    if not name:
        return _default_provider()
    if name == NO_PROVIDER:
        return None
    if name not in PROVIDERS:
        raise UnknownProviderError(name=name, known=", ".join([*PROVIDERS, NO_PROVIDER]))
    provider = PROVIDERS[name]
    if not provider.is_installed():
        raise ProviderMissingError(name=name, package=provider.package, other=SIMULATOR.name)
    return provider


def _default_provider() -> Provider | None:
    if ASCEND.is_installed():
        return ASCEND
    return None if _torch_has_another_accelerator() else SIMULATOR


def _torch_has_another_accelerator() -> bool:
    import torch

    # What torch was built for, then how many there are: for CUDA that asks NVML. Asking the driver itself, as
    # is_available() does, would break programs that fork before they use CUDA.
    accelerator = torch.accelerator.current_accelerator()
    if accelerator is None or accelerator.type in ("npu", "privateuseone"):
        return False
    return torch.get_device_module(accelerator).device_count() > 0


def current_provider() -> Provider:
    """The provider of the device `npu` that exists in this process; the embedded NPU where none was chosen
    explicitly.
    """
    return select_provider() or SIMULATOR


def compile_modes() -> Mapping[str, str]:
    """The modes of this process that change the kernels which it compiles, by name."""
    named = current_provider().compile_modes
    return {} if named is None else pkgutil.resolve_name(named)()


def is_observed() -> bool:
    """Whether each launch of a kernel that is loaded now is observed."""
    named = current_provider().is_observed
    return named is not None and pkgutil.resolve_name(named)()


def known_error(error: Exception, kernel: str) -> Exception | None:
    """What to raise in place of `error`, with which `kernel` did not compile; None if the provider does not know it."""
    named = current_provider().known_error
    return None if named is None else pkgutil.resolve_name(named)(error, kernel)


def device_runtime() -> Any:
    """The `Runtime` (device/runtime.py) of the provider. Raises DeviceIsBuiltError if the provider brings its device
    built.
    """
    provider = current_provider()
    if provider.runtime is None:
        raise DeviceIsBuiltError(provider=provider.name, variable=PROVIDER_VARIABLE, other=SIMULATOR.name)
    return pkgutil.resolve_name(provider.runtime)


def captured_calls() -> Any:
    """The provider's module that captures compiled functions."""
    name = current_provider().captured_calls
    assert name is not None, "asked for where the provider has one"
    return pkgutil.resolve_name(name)


def packaged_kernels() -> Any:
    """The provider's module that makes kernels part of packages. Raises NoPackagesError."""
    return pkgutil.resolve_name(_of_packages(current_provider().packaged_kernels))


def package_runtime() -> Any:
    """The provider's module with the class Package. Raises NoPackagesError, and what building it raises."""
    return pkgutil.resolve_name(_of_packages(current_provider().package_runtime))()


def _of_packages(name: str | None) -> str:
    if name is None:
        raise NoPackagesError(provider=current_provider().name)
    return name


def module_lines() -> Sequence[str]:
    """Lines of the provider's own in the header of the module that is generated now."""
    named = current_provider().module_lines
    return () if named is None else pkgutil.resolve_name(named)()


def current_target() -> NpuTarget:
    """The chip that kernels are generated for: `INDUCTOR_NPU_TARGET`, else the chip that the provider finds in
    this machine, else Ascend910B3.

    Raises UnknownTargetError or UnknownChipError, naming the known chips.
    """
    name, error = os.environ.get(TARGET_VARIABLE, "").strip(), UnknownTargetError
    if not name and (chip := _chip_of_this_machine()):
        name, error = chip, UnknownChipError
    try:
        return get_target(name or DEFAULT_TARGET)
    except ValueError:
        raise error(name=name, known=", ".join(known_targets())) from None


def _chip_of_this_machine() -> str | None:
    """The name of the chip, where the provider can tell: all chips of a machine are of one kind."""
    provider = current_provider()
    if provider.chip is not None:
        return pkgutil.resolve_name(provider.chip)()
    return _chip_of_torch_npu() if ASCEND.package in sys.modules and provider is ASCEND else None


@functools.cache
def _chip_of_torch_npu() -> str | None:
    import torch

    npu = getattr(torch, "npu", None)
    return npu.get_device_name(0) if npu is not None and npu.is_available() else None
