"""The final IR of some kernels of the folder kernels, as bishengir-compile of ascendnpu-ir 1.2.0 printed it for
Ascend910B3, locations kept.
"""

from __future__ import annotations

from pathlib import Path

from inductor_npu.ascend.hivm import Analysis, analyse
from inductor_npu.ascend.kernel import Launch, TensorArgument
from inductor_npu.target import get_target

DATA = Path(__file__).with_name("data")
TARGET = get_target("Ascend910B3")


def text(name: str) -> str:
    return (DATA / f"{name}.mlir").read_text()


def tensor(elements: int, dtype: str = "fp32", storage: int = 0) -> TensorArgument:
    size = {"fp32": 4, "fp16": 2, "i32": 4}[dtype]
    return TensorArgument(dtype, (elements,), (1,), 0, storage, elements * size)


def analysis(name: str, grid: tuple[int, int, int] | None = None, **arguments: TensorArgument | int) -> Analysis:
    """The analysis of a golden kernel, of one launch of it where a grid is given."""
    return analyse(text(name), TARGET, None if grid is None else Launch(grid, arguments))
