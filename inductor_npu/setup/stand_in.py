"""A module `torch_npu` for libraries that look for one before they use an NPU: accelerate, transformers' Trainer.

It is `torch.npu` under the name of the package for Ascend chips, without that package's own operators. The user has to
ask for it, because a library that finds torch_npu may do more than use the device (transformers then makes numeric
masks boolean, which is wrong for biases).
"""

from __future__ import annotations

import functools
import os
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from inductor_npu.errors import NpuWarning
from inductor_npu.providers import ASCEND
from inductor_npu.support.import_hooks import after_import
from inductor_npu.support.switches import is_on

VARIABLE = "INDUCTOR_NPU_AS_TORCH_NPU"
NAME = "torch_npu"


class StandIn(ModuleType):
    """Module `torch_npu` of the embedded NPU."""

    def __getattr__(self, name: str) -> object:
        raise AttributeError(
            f"module 'torch_npu' has no attribute {name!r}: it stands in for the package of Ascend chips ({VARIABLE}) "
            "and has torch.npu alone; use PyTorch's operators"
        )


def npu_fusion_attention(*args: object, **kwargs: object) -> None:
    """An operator of Ascend's package, whose name transformers imports with any model. Raises NotImplementedError."""
    raise NotImplementedError(
        "torch_npu.npu_fusion_attention is an operator of Ascend chips, which the embedded NPU has not: use "
        'torch.nn.functional.scaled_dot_product_attention, in transformers attn_implementation="sdpa" or "eager"'
    )


class _StandInFinder(MetaPathFinder, Loader):
    """Finds the stand-in where Python looks for torch_npu. `activate` brings torch.npu, once torch is there."""

    def __init__(self, activate: Callable[[], None]) -> None:
        self._activate = activate

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        # Without an origin: providers.py takes it for no provider.
        return ModuleSpec(fullname, self) if fullname == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name, __doc__)

    def exec_module(self, module: ModuleType) -> None:
        # torch calls this of the package that is installed, which is not there for it: its device is another.
        module._autoload = lambda: None  # type: ignore[attr-defined]
        import torch

        self._activate()
        module.npu = sys.modules[f"{NAME}.npu"] = torch.npu  # type: ignore[attr-defined]
        module.npu_fusion_attention = npu_fusion_attention  # type: ignore[attr-defined]
        module.__version__ = torch.__version__.partition("+")[0]  # type: ignore[attr-defined]


def install_if_wanted(activate: Callable[[], None]) -> None:
    """Installs the stand-in where INDUCTOR_NPU_AS_TORCH_NPU is on, or the package whose place it takes is installed,
    too: its device would be a second `npu`. Else, where the variable is not set, accelerate's import says so.
    """
    if is_on(VARIABLE) or ASCEND.is_installed():
        install(activate)
    elif VARIABLE not in os.environ:
        after_import("accelerate.state", _say_that_the_cpu_is_chosen)


@functools.cache
def install(activate: Callable[[], None]) -> ModuleSpec | None:
    """Makes `import torch_npu` find the stand-in, whose spec is returned. `activate` is called when it is imported, and
    activates the provider of this process. Calling it again changes nothing.
    """
    finder = _StandInFinder(activate)
    sys.meta_path.insert(0, finder)
    return finder.find_spec(NAME)


def _say_that_the_cpu_is_chosen() -> None:
    warnings.warn(
        "accelerate and transformers' Trainer choose device `npu` only where they find a package torch_npu, and the "
        f"CPU otherwise. {VARIABLE}=1 lets them find torch.npu under that name, {VARIABLE}=0 ends this warning",
        NpuWarning,
        stacklevel=2,
    )
