"""A process that runs kernels, one after the other: `python -m inductor_npu.ascend.execute.worker PROGRAMS`.

It speaks the protocol of toolchain/worker.py: PROGRAMS is the folder of bishengir-opt, the first line is `{"ready":
true}`, and each request is answered by a JSON line, an Agreement:

    {"kernel": CollectedKernel, "linalg": "...", "target": "Ascend910B3", "collection": "folder of launch.data",
    "folder": "...", "seconds": 120}

Files of the work go to the request's `folder`; `seconds` limits each run.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from triton._C import libtriton  # noqa: F401  (loaded here once, so that no child process has to)

from inductor_npu.ascend.execute.run import run_collected
from inductor_npu.ascend.kernel import CollectedKernel


def serve(programs: Path) -> None:
    """Answers requests until there are no more."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    _write(answers, {"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        agreement = run_collected(
            CollectedKernel.from_json(request["kernel"]),
            request["linalg"],
            request["target"],
            programs,
            Path(request["collection"]),
            Path(request["folder"]),
            request["seconds"],
        )
        _write(answers, agreement.to_json())


def _write(file: Any, data: dict[str, Any]) -> None:
    file.write(f"{json.dumps(data)}\n")
    file.flush()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
