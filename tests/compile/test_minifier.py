"""PyTorch's minifier on `npu`: of a program in which one operator goes wrong, that operator is left."""

import re
from unittest.mock import patch

import pytest
from torch._dynamo.test_minifier_common import MinifierTestBase, MinifierTestResult

from inductor_npu.codegen.emit.overrides import NpuKernelOverrides

PROGRAM = """
@torch.compile()
def program(x):
    return torch.cos(torch.tan(torch.sin(x) * 2)) + 1

program(torch.randn(20, 20, device="npu"))
"""


@pytest.mark.slow
class TestMinifier(MinifierTestBase):
    def minified(self, tan: str, after: str, error: str) -> MinifierTestResult:
        """What the minifier makes of PROGRAM where the kernel's text of `tan(x)` is `tan`."""
        with patch.object(NpuKernelOverrides, "tan", staticmethod(lambda x: tan.format(x=x))):
            result = self._run_full_test(PROGRAM, after, error, isolate=False)
        assert result is not None
        return result

    def assert_tan_is_left(self, result: MinifierTestResult) -> None:
        assert re.findall(r"= torch\.(?:ops\.aten\.)?(\w+)", result.repro_module()) == ["tan"]

    def test_a_wrong_value(self) -> None:
        self.assert_tan_is_left(self.minified("({x} + 1.0)", "aot", "AccuracyError"))

    def test_an_error_of_the_compiler_below_autograd(self) -> None:
        self.assert_tan_is_left(self.minified("tl.no_such_function({x})", "aot", "no_such_function"))

    def test_an_error_of_the_compiler_below_dynamo(self) -> None:
        self.assert_tan_is_left(self.minified("tl.no_such_function({x})", "dynamo", "no_such_function"))
