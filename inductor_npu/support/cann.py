"""CANN, Ascend's toolkit, as the shell of this process named it (its set_env.sh)."""

from __future__ import annotations

import os
import re
from pathlib import Path

_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME")
# Where it says which version it is.
_FILES = ("version.cfg", "ascend_toolkit_install.info", "*-linux/ascend_toolkit_install.info")
_VERSION = re.compile(r"[vV]ersion\D{0,40}?(\d+\.\d+[\w.]*)")


def folder() -> Path | None:
    """Where it is installed; None where no variable names a folder that is there."""
    named = (os.environ.get(variable) for variable in _VARIABLES)
    return next((Path(name) for name in named if name and Path(name).is_dir()), None)


def version_files(home: Path) -> list[Path]:
    """The files of this folder of it that say which version it is."""
    return sorted(path for pattern in _FILES for path in home.glob(pattern) if path.is_file())


def version(home: Path) -> str | None:
    """What the first of them that names one says, such as "8.2.RC1"; None where none does."""
    matches = (_VERSION.search(path.read_text(errors="replace")) for path in version_files(home))
    return next((match[1] for match in matches if match), None)
