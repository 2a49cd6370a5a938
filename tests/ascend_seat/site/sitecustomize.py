"""Runs as each process at the seat starts: once torch_npu is imported, eager operators get their stand-ins.

Nothing of torch is imported here: the order in which a program imports torch and torch_npu is its own.
"""

import importlib.util
import os
import sys


class _AfterTorchNpu:
    """Finds torch_npu as the other finders do; its loader calls `eager.install` once the module's code has run."""

    searching = False

    def find_spec(self, name, path=None, target=None):
        if name != "torch_npu" or self.searching:
            return None
        self.searching = True
        try:
            spec = importlib.util.find_spec(name)
        finally:
            self.searching = False
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_replace(module):
                execute(module)
                from tests.ascend_seat import eager

                eager.install()

            spec.loader.exec_module = execute_and_replace
        return spec


if os.environ.get("STANDIN_EAGER", "1") == "1":
    sys.meta_path.insert(0, _AfterTorchNpu())

# As inductor_npu.pth does where the package is installed and not read from its sources. In front of the finder above.
import inductor_npu_startup  # noqa: E402, F401
