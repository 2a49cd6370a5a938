"""`--run`: what Ascend's compiler made of a kernel, executed on the host and compared with the embedded NPU."""

from inductor_npu.ascend.execute.agreement import Agreement, Difference, RunVerdict
from inductor_npu.ascend.execute.batch import run_kernel, run_kernels

__all__ = ["Agreement", "Difference", "RunVerdict", "run_kernel", "run_kernels"]
