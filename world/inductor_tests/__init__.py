"""PyTorch's own tests of Inductor, in their form for a GPU, with `npu` as the GPU. None of their files is here:
Debian's source package of PyTorch has them, in test/inductor.
"""

from __future__ import annotations

from world.inductor_tests.suite import members, run_case

__all__ = ["members", "run_case"]
