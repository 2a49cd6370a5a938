"""The host as device npu: its driver, its library of eager operators and what else only the embedded NPU has."""
