"""Runs a program as a user would, in a process of its own, which may fail anywhere, and reports how far it came.

Each line of standard output that begins with MARK is one fact, `name` and value as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass, field
from typing import Any

MARK = "inductor-npu doctor: "
SECONDS = 600  # a first kernel on a slow host, with all that is built once
# As a program begins: torch first, nothing of ours.
_CODE = "import torch; from inductor_npu.diagnostics.doctor import probe; probe.look()"


@dataclass
class Found:
    """`facts` by name as far as the process came; `failure`: the last line that it said, if it failed; our warnings."""

    facts: dict[str, Any] = field(default_factory=dict)
    failure: str = ""
    warnings: list[str] = field(default_factory=list)


def run() -> Found:
    """Starts the process and waits for it."""
    found = Found()
    try:
        done = subprocess.run([sys.executable, "-c", _CODE], capture_output=True, text=True, timeout=SECONDS)
        output, errors, status = done.stdout, done.stderr, done.returncode
    except subprocess.TimeoutExpired as error:
        output, errors, status = _text(error.stdout), f"it did not end within {SECONDS} s", 1
    for line in output.splitlines():
        if line.startswith(MARK):
            name, value = json.loads(line.removeprefix(MARK))
            found.facts[name] = value
    found.warnings = [line.partition("NpuWarning: ")[2] for line in errors.splitlines() if "NpuWarning: " in line]
    if status != 0:
        said = [line for line in errors.splitlines() if line.strip() and not line.startswith("[ERROR]")]
        found.failure = said[-1].strip() if said else f"exit status {status}"
    return found


def _text(output: str | bytes | None) -> str:
    return output.decode(errors="replace") if isinstance(output, bytes) else output or ""


def look() -> None:
    """Says what there is, step by step."""
    import torch

    from inductor_npu import providers

    _say("torch", [torch.__version__, torch.__file__])
    provider = providers.select_provider()
    _say("provider", None if provider is None else provider.name)
    npu = getattr(torch, "npu", None)
    _say("devices", 0 if npu is None else npu.device_count())
    if npu is None or not npu.device_count():
        return
    _say("chip", npu.get_device_name(0))
    _say("target", providers.current_target().name)
    import torch._inductor.compile_fx
    from torch._inductor.codegen.common import get_scheduling_for_device

    scheduling = get_scheduling_for_device("npu")
    _say("generates code", None if scheduling is None else f"{scheduling.__module__}.{scheduling.__qualname__}")
    import triton
    from triton.backends import backends

    _say("triton", [triton.__version__, triton.__file__, sorted(backends)])
    _say("kernel", _is_right())


def _is_right() -> bool:
    """Whether a compiled function of 64 elements gives eager's values."""
    import torch

    x = torch.arange(64, dtype=torch.float32)
    got = torch.compile(lambda a: a * 3 + 1)(x.to("npu")).cpu()
    return torch.equal(got, x * 3 + 1)


def _say(name: str, value: Any) -> None:
    print(f"{MARK}{json.dumps([name, value])}", flush=True)
