"""Where the stand-in CANN is, and the environment variables of a process that uses it."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
BUILT = ROOT / "build" / "ascend_seat"
CANN = BUILT / "cann"
KERNELS = BUILT / "kernels"  # shared objects by the hash of their Linalg, for all processes and runs

# Names of functions of CANN that were called and that the stand-in does not have are appended to the file that this
# names: a test fails for them.
REPORT = "STANDIN_REPORT"


def package(name: str) -> Path:
    """The folder of an installed package, which is not imported."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed for {sys.executable}; run: make ascend-seat")
    return Path(spec.origin).parent


def environment() -> dict[str, str]:
    """The variables of this process, and those of the seat. The loader reads LD_LIBRARY_PATH when a process starts."""
    variables = dict(os.environ)

    def prepend(name: str, *paths: Path) -> None:
        variables[name] = os.pathsep.join([*map(str, paths), *filter(None, [variables.get(name)])])

    prepend("PATH", CANN / "bin", Path(sys.executable).parent)
    prepend("LD_LIBRARY_PATH", CANN / "lib64")
    prepend("PYTHONPATH", HERE / "site", ROOT)
    variables["ASCEND_HOME_PATH"] = str(CANN)
    variables["ASCEND_OPP_PATH"] = str(CANN / "opp")
    variables.setdefault("TRITON_HOME", str(BUILT / "home"))
    variables.setdefault("TRITON_CACHE_DIR", str(BUILT / "triton"))
    return variables
