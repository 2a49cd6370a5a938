"""`python -m tests.codegen.accept_golden [NAME ...]`: writes what is emitted now to tests/codegen/golden, all programs
or those named. `git diff` shows what changed.
"""

from __future__ import annotations

import sys

from tests.codegen.golden_programs import FOLDER, PROGRAMS, emitted, kept


def main() -> None:
    """Writes the files and says which of them changed. Raises SystemExit for a name that is no program."""
    names = sys.argv[1:] or list(PROGRAMS)
    if unknown := [name for name in names if name not in PROGRAMS]:
        raise SystemExit(f"no such program: {', '.join(unknown)}; there are {', '.join(PROGRAMS)}")
    FOLDER.mkdir(exist_ok=True)
    for path in {*FOLDER.iterdir()} - {kept(name) for name in PROGRAMS}:
        path.unlink()
        print(f"removed {path.name}")
    changed = []
    for name in names:
        text, path = emitted(name), kept(name)
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(name)
    print(f"{len(names)} programs, changed: {', '.join(changed) or 'none'}")


if __name__ == "__main__":
    main()
