"""Facts of a chip by CANN's names."""

from __future__ import annotations

from inductor_npu.target import get_target

_chip = "Ascend910B3"


def set_current_compile_soc_info(name: str) -> None:
    """The chip that is asked about from now on."""
    global _chip
    _chip = name


def get_soc_spec(fact: str) -> int:
    """UB_SIZE: bytes of the Unified Buffer. Raises KeyError for any other fact."""
    return {"UB_SIZE": get_target(_chip).unified_buffer}[fact]
