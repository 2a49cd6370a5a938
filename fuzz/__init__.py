"""Random programs, compiled and held against eager.

`python -m fuzz` (`make fuzz`) makes programs that no one thought of: a few inputs of odd sizes, strides and dtypes, and
a dozen statements over them (fuzz/statements). Each is compiled for `npu`, with its gradients, and compared with eager
on the CPU by the rule of opinfo/comparison.py. What fails is made as small as it gets by hypothesis, and saved as a
Python file; once mended it goes to tests/fuzz/found, which CI runs.
"""
