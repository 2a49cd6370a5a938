"""What happens at the end of `import torch` where torch_npu provides the device."""

from __future__ import annotations

import sys
import warnings
from types import ModuleType

from inductor_npu.ascend_chip import driver
from inductor_npu.ascend_chip.other_backends import answer_the_variable
from inductor_npu.errors import NpuWarning
from inductor_npu.setup import registration
from inductor_npu.support.import_hooks import after_import, instead_of_running

_THEIR_INDUCTOR = "torch_npu._inductor"


def install() -> None:
    """Makes this package the one that generates code for torch_npu's device. Cheap: torch_npu itself may come later."""
    after_import("triton.runtime.driver", driver.choose)
    after_import("torch_npu.utils._dynamo", _leave_inductor_to_us)
    # The next that torch_npu imports when it has registered its own, at the end of the import of Dynamo.
    after_import("torch_npu.dynamo.trace_rule", registration.register_device_interface)
    after_import("torch._inductor.compile_fx", answer_the_variable)
    instead_of_running(_THEIR_INDUCTOR, _hold_back)
    if _THEIR_INDUCTOR in sys.modules:
        warnings.warn(
            f"{_THEIR_INDUCTOR} was imported before inductor-npu could keep it from replacing parts of Inductor: "
            f"torch.compile stays torch_npu's in this process. Import torch before it",
            NpuWarning,
            stacklevel=2,
        )


def _leave_inductor_to_us() -> None:
    """torch_npu has an Inductor of its own, which it loads as torch.compile is called, over whatever is registered."""
    sys.modules["torch_npu.utils._dynamo"].disable_register_inductor_npu()


def _hold_back(package: ModuleType) -> None:
    """The package `torch_npu._inductor` without its own code, which registers torch_npu's Inductor and replaces
    lowerings, passes and heuristics of PyTorch's. Its modules can be imported: torch_npu's graphs read its settings.
    """
    del package
