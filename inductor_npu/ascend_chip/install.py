"""What happens at the end of `import torch` where torch_npu provides the device."""

from __future__ import annotations

import sys

from inductor_npu.import_hooks import after_import


def install() -> None:
    """Makes this package the one that generates code for torch_npu's device. Cheap: torch_npu itself may come later."""
    after_import("torch_npu.utils._dynamo", _leave_inductor_to_us)


def _leave_inductor_to_us() -> None:
    """torch_npu has an Inductor of its own, which it loads as torch.compile is called, over whatever is registered."""
    sys.modules["torch_npu.utils._dynamo"].disable_register_inductor_npu()
