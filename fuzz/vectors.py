"""Code for another vector width than the host's, so that every host tests the row ends of each width."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

WIDTHS = (0, 128, 256, 512)  # in bits; 0 is the host's


@contextmanager
def vectors_of(bits: int) -> Iterator[None]:
    """Within it the embedded NPU's compiler makes code for vectors of `bits` bits: LLVM makes two of one that the host
    does not have. What it has compiled before, and keeps, it does not compile again.
    """
    if not bits:
        yield
        return
    from inductor_npu.simulator.triton_backend import codegen

    options = codegen.CodegenOptions(vector_bits=bits, registers=32 if bits == 512 else 16)
    with patch.object(codegen, "host_options", lambda: options):
        yield
