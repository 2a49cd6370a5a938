"""A process that compiles kernels, one after the other: `python -m inductor_npu.ascend.toolchain.worker PROGRAMS`.

PROGRAMS is the folder of bishengir-compile. The first line on standard output is `{"ready": true}`; then each
request, a JSON line on standard input, is answered by a JSON line:

    {"kernel": KernelSource, "target": "Ascend910B3", "folder": "...", "processor_seconds": 100}
    {"ttir": ..., "linalg": ..., "hivm": ..., "failed": null or a Stage, "message": ..., "crashed": ...,
     "required_bits": ..., "seconds": ...}

`processor_seconds`, which may be left out, is what this process and each program that it runs may use.

Files of the work go to the request's folder, so that what there was is still there if this process dies: kernel.py,
kernel.ttir, kernel.mlir, command.txt. It ends when its standard input does.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO


def serve(programs: Path) -> None:
    """Answers requests until there are no more."""
    # Triton and kernels print, also while they are loaded: that goes to standard error, away from the protocol.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from inductor_npu.ascend.toolchain.compiler import Compiler

    with tempfile.TemporaryDirectory(prefix="inductor-npu-worker-") as folder:
        compiler = Compiler(programs, Path(folder))
        _write(answers, {"ready": True})
        for line in sys.stdin:
            _write(answers, compiler.answer(json.loads(line)))


def _write(file: TextIO, data: dict[str, Any]) -> None:
    file.write(f"{json.dumps(data)}\n")
    file.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
