"""Environment variables that switch something on for a whole process."""

from __future__ import annotations

import os

_OFF = ("", "0", "false", "off", "no")


def is_on(variable: str) -> bool:
    """Whether `variable` is set, and to something that does not mean off."""
    return os.environ.get(variable, "").strip().lower() not in _OFF
