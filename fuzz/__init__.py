"""Random programs, compiled and compared with eager.

`python -m fuzz` (`make fuzz`) generates programs: a few inputs of odd sizes, strides and dtypes, and a dozen statements
over them (fuzz/statements). Each is compiled for `npu`, with its gradients, and compared with eager on the CPU by the
rule of opinfo/comparison.py. Hypothesis reduces failing programs, which are saved as Python files. Once fixed, they go
to tests/fuzz/found, which CI runs.
"""
