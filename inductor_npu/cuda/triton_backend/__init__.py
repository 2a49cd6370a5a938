"""Triton's backend `npu` where the device is a GPU: NVIDIA's compiler, with what generated kernels assume of one."""
