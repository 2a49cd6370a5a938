"""What Inductor makes if a C++ wrapper is asked for: an error that says what to use instead (docs/graphs.md: why)."""

from __future__ import annotations

from typing import Any, NoReturn

from torch._inductor.codegen.wrapper import PythonWrapperCodegen

from inductor_npu.errors import CppWrapperError


class NpuCppWrapper(PythonWrapperCodegen):
    """No wrapper. Raises CppWrapperError when a graph's wrapper is made."""

    @staticmethod
    def create(*args: Any, **kwargs: Any) -> NoReturn:
        """As PythonWrapperCodegen's."""
        raise CppWrapperError()
