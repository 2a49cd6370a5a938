"""Device `npu` of a real Ascend chip, which torch_npu drives: what this package has to agree on with torch_npu."""
