"""What reads and runs packages (docs/export.md), in C++, as sources: each provider links it with its own runtime, which
csrc/package/platform.h describes.
"""

from __future__ import annotations

from pathlib import Path

SOURCES = Path(__file__).parent / "csrc"
INCLUDES = SOURCES / "include"  # headers for C++ programs
