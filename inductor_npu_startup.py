"""Runs when each Python process starts, because inductor_npu.pth names it. It lets torch_npu and this package work
together in whatever order a program imports them.

`import torch` calls us at its end, but torch_npu, imported first, imports torch with such calls switched off. And where
the user asked for the embedded NPU on a machine with torch_npu, only one of the two can be torch's device `npu`. So we
have to know that torch_npu is about to be imported. Until then nothing is imported here: it costs a process about 100
us.
"""

import sys


class _BeforeTorchNpu:
    """Calls `autoload.before_torch_npu` as torch_npu is looked for the first time."""

    called = False

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        if name != "torch_npu" or self.called:
            return None
        self.called = True
        from inductor_npu.setup import autoload

        return autoload.before_torch_npu()


sys.meta_path.insert(0, _BeforeTorchNpu())
