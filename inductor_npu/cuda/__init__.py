"""Provider `cuda`: the device `npu` is a GPU of NVIDIA."""
