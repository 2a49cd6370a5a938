"""Device `npu` of a real Ascend chip, which torch_npu drives: what this package and torch_npu must agree on."""
