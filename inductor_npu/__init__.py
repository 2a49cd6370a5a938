"""inductor-npu: a TorchInductor backend for NPUs, and an embedded NPU that runs it on any Linux machine.

Nothing of this package has to be imported: `import torch` calls `_autoload` through the entry point group
`torch.backends`, and `torch.compile` then works on `npu` tensors.
"""

from __future__ import annotations

__version__ = "0.1.0"
__all__ = ["__version__", "enable"]


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
    from inductor_npu import autoload

    autoload.enable(provider)


def _autoload() -> None:
    """Entry point of group `torch.backends`: chooses the device's provider and prepares the rest to load when it is
    first used.

    Runs at the end of `import torch`. Never raises: whatever goes wrong becomes one warning, and torch stays as it was.
    """
    from inductor_npu import autoload

    autoload.run()
