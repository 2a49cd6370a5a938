"""What happens at the end of `import torch`: the device `npu` gets its name and its Python module. All other work waits
for the first use.
"""

from __future__ import annotations

import functools
import os
import pkgutil
import sys
import warnings
from importlib.machinery import ModuleSpec
from importlib.metadata import entry_points
from types import ModuleType

from inductor_npu.errors import NpuWarning, ProviderChangeError, UnknownProviderError
from inductor_npu.providers import (
    ASCEND,
    NO_PROVIDER,
    PROVIDER_VARIABLE,
    PROVIDERS,
    SIMULATOR,
    Provider,
    select_provider,
)
from inductor_npu.setup import stand_in
from inductor_npu.support.import_hooks import after_import, if_it_fails

_FAKE_KERNELS = "torch._subclasses.fake_impls"
_active: Provider | None = None


def run() -> None:
    """Activates the provider that `providers.select_provider` names, if any. Never raises: a failure becomes one
    warning.
    """
    if _active is not None:
        return
    try:
        if not os.environ.get(PROVIDER_VARIABLE) and _another_backend_is_installed():
            return
        provider = select_provider()
        if provider is not None:
            _activate(provider)
    except Exception as error:  # noqa: BLE001 - it would make `import torch` itself fail, everywhere
        warnings.warn(
            f"inductor-npu could not start, so torch has no device `npu` in this process: "
            f"{type(error).__name__}: {error} (set {PROVIDER_VARIABLE}=none to leave torch alone without this warning)",
            NpuWarning,
            stacklevel=2,
        )


def before_torch_npu() -> ModuleSpec | None:
    """Called where torch_npu is about to be imported, maybe before torch (see inductor_npu_startup.py). Never raises.

    Returns what is to be imported in its place: where the embedded NPU is asked for, torch.npu under that name; else
    None.
    """
    wanted = os.environ.get(PROVIDER_VARIABLE, "").strip().lower()
    if wanted == SIMULATOR.name:
        return stand_in.install(activate=run)
    if wanted == NO_PROVIDER:
        return None
    if_it_fails(ASCEND.package, _leave_torch_usable)
    if "torch" not in sys.modules and os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") == "1":
        after_import(ASCEND.package, run)
    return None


def _leave_torch_usable(module: ModuleType, error: Exception) -> bool:
    """torch imports torch_npu at its end, and fails with it, where CANN is missing for example: it need not. A program
    that imports torch_npu itself gets the error.
    """
    torch = sys.modules.get("torch")
    if torch is None or not getattr(torch.__spec__, "_initializing", False):
        return False
    # torch calls this next. After it, torch_npu is as if nobody had tried to import it.
    module._autoload = lambda: sys.modules.pop(ASCEND.package, None)  # type: ignore[attr-defined]
    reason = str(error).splitlines()[0] if str(error) else type(error).__name__
    hint = " (source the set_env.sh of CANN's toolkit)" if "cannot open shared object file" in reason else ""
    warnings.warn(
        f"torch_npu does not load: {reason}{hint}. torch works without npu; {PROVIDER_VARIABLE}={SIMULATOR.name} takes "
        f"the embedded NPU; inductor-npu doctor says more",
        NpuWarning,
        stacklevel=2,
    )
    return True


def enable(name: str) -> None:
    """Activates the provider called `name` in this process and in those that it starts; see `inductor_npu.enable`."""
    if name not in PROVIDERS:
        raise UnknownProviderError(name=name, known=", ".join(PROVIDERS))
    if _active is not None and _active.name != name:
        raise ProviderChangeError(name=name, active=_active.name)
    os.environ[PROVIDER_VARIABLE] = name  # compile workers and other child processes choose by this variable
    provider = select_provider()
    if provider is not None and _active is None:
        _activate(provider)


def _activate(provider: Provider) -> None:
    global _active
    import torch

    from inductor_npu.setup import registration
    from inductor_npu.support import versions

    versions.warn_about_versions()
    if torch.__version__ < versions.TESTED_TORCH[0]:
        return  # said by the warning; older releases lack hooks that the device cannot do without
    if provider.runtime is not None:
        _install_device(provider)
    if provider is ASCEND:
        if_it_fails(ASCEND.package, _leave_torch_usable)
        from inductor_npu.setup import beside_torch_npu

        beside_torch_npu.install()
    registration.register()
    _active = provider


def _install_device(provider: Provider) -> None:
    from inductor_npu.device import npu

    npu.install()
    if provider.install is not None:
        pkgutil.resolve_name(provider.install)()
    if provider.convolves_as is not None:
        after_import(_FAKE_KERNELS, functools.partial(_take_layouts_of_convolutions, provider.convolves_as))
    stand_in.install_if_wanted(activate=run)


def _take_layouts_of_convolutions(library: str) -> None:
    from inductor_npu.device import convolution_layouts

    convolution_layouts.register(sys.modules[_FAKE_KERNELS], library)


def _another_backend_is_installed() -> bool:
    """Whether some other package adds a device to torch. At most one can own PrivateUse1, and it may load after us: it
    goes first.
    """
    ours = ("inductor_npu", ASCEND.package)
    return any(entry.module.split(".")[0] not in ours for entry in entry_points(group="torch.backends"))
