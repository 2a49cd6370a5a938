"""Defects of Ascend's compiler that make it refuse correct kernels, each with a small kernel that shows it."""

from __future__ import annotations

from dataclasses import dataclass

from inductor_npu.ascend.kernel import KernelSource

_HEAD = "import triton\nimport triton.language as tl\n\n\n@triton.jit\n"


@dataclass(frozen=True)
class Defect:
    """`message` is a regular expression for what the compiler says; `kernel` a kernel to which it says so."""

    name: str
    message: str
    kernel: KernelSource


def _kernel(text: str, **arguments: str) -> KernelSource:
    return KernelSource("kernel", f"{_HEAD}def kernel({', '.join(arguments)}):\n{text}", arguments, {})


DEFECTS = (
    Defect(
        "an address computed with floating-point numbers, which the adapter leaves unconverted",
        r"failed to legalize unresolved materialization from \(\) to 'tensor<1xf\d+>'",
        _kernel(
            "    row = (tl.program_id(0).to(tl.float32) * 0.5).to(tl.int32)\n"
            "    i = tl.arange(0, 64)\n    tl.store(y + i, tl.load(x + row * 64 + i))\n",
            x="*fp32",
            y="*fp32",
        ),
    ),
    Defect(
        "loads of every second element from another place than 0 or 1, an assertion of the adapter",
        r"InterleaveOptimization\.cpp",
        _kernel(
            "    i = tl.arange(0, 64)\n    tl.store(y + i, tl.load(x + (2 * i)) + tl.load(x + (4 + 2 * i)))\n",
            x="*fp32",
            y="*fp32",
        ),
    ),
)
