"""The device `npu` on an NVIDIA GPU against stock Inductor and eager PyTorch on the same GPU: `python -m benchmarks.gpu`."""
