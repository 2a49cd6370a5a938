"""Device `npu` on an NVIDIA GPU against stock Inductor and eager on the same GPU: `python -m benchmarks.gpu`."""
