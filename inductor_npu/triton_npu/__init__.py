"""What Triton's backends for target `npu` have in common, whoever provides the device."""
