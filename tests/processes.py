"""Runs a piece of Python in a process of its own: for what happens once in a process, such as `import torch`."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Finished:
    """What a process left behind."""

    returncode: int
    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        """The lines of standard output. Raises AssertionError with both outputs if the process failed."""
        assert self.returncode == 0, f"exit status {self.returncode}\n{self.stdout}\n{self.stderr}"
        return self.stdout.splitlines()


def run_python(code: str, path: Path | None = None, timeout: float = 120, **environment: str) -> Finished:
    """Runs `code` (indented as in the test) in a fresh Python.

    `environment` is added to this process's, less pytest's switches and all of ours but who provides the device and
    where its library is; `path` goes to the front of sys.path.
    """
    kept = ("INDUCTOR_NPU_PROVIDER", "INDUCTOR_NPU_CACHE_DIR")
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name in kept or not name.startswith(("INDUCTOR_NPU_", "PYTEST_"))
    }
    if path is not None:
        inherited["PYTHONPATH"] = os.pathsep.join(filter(None, [str(path), inherited.get("PYTHONPATH")]))
    finished = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**inherited, **environment},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    return Finished(finished.returncode, finished.stdout, finished.stderr)
