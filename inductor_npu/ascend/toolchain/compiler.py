"""All stages of the compiler for one kernel: its text to TTIR to Linalg to final HIVM."""

from __future__ import annotations

import math
import resource
import time
from pathlib import Path
from typing import Any

from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.ascend.toolchain import frontend
from inductor_npu.ascend.toolchain.bishengir import BishengIR
from inductor_npu.ascend.toolchain.failures import CompileFailure


class Compiler:
    """`programs` is the folder of bishengir-compile; `folder` an empty one for what is needed as long as this lives."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._bishengir = BishengIR(programs, folder)

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to a request (see worker.py); both are plain data."""
        kernel, target, folder = request["kernel"], request["target"], Path(request["folder"]).resolve()
        source = KernelSource(**{**kernel, "divisible": tuple(kernel["divisible"])})
        if "processor_seconds" in request:
            _limit_processor_time(request["processor_seconds"])
        start = time.perf_counter()
        made: dict[str, str] = {}
        failure: CompileFailure | None = None
        try:
            ttir = frontend.to_ttir(source, target, folder)
            made["ttir"] = ttir.text
            made["linalg"] = frontend.to_linalg(ttir, folder)
            made["hivm"] = self._bishengir.compile(folder, target, source.options)
        except CompileFailure as error:
            failure = error
        return {
            **{kind: made.get(kind) for kind in ("ttir", "linalg", "hivm")},
            "failed": failure and failure.stage.value,
            "message": failure.message if failure else "",
            "crashed": bool(failure and failure.crashed),
            "required_bits": failure and failure.required_bits,
            "seconds": time.perf_counter() - start,
        }


def _limit_processor_time(seconds: int) -> None:
    """Lets this process, and each program that it starts, use `seconds` of processor time from now on. Then the
    system ends it by SIGXCPU: on a busy machine as on an idle one, unlike a time by the clock.
    """
    usage = resource.getrusage(resource.RUSAGE_SELF)
    limit = math.ceil(usage.ru_utime + usage.ru_stime) + seconds
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (limit if hard == resource.RLIM_INFINITY else min(limit, hard), hard))
