"""Stands in for `bishengir-compile` of CANN: the real one, up to the assembler that only CANN has, then the kernel as a
shared object for the host, made of the same Linalg (inductor_npu.ascend.execute).

What the real one refuses is refused, in its words. The objects are kept by the hash of Linalg and flags.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.ascend_seat.seat import CANN, KERNELS, package

_NAMES = (".o", "_reloc.o")  # the name of a binary depends on the compiler's version


def main(arguments: list[str]) -> int:
    """Compiles as `bishengir-compile ARGUMENTS` would. Returns the exit status."""
    programs = package("ascendnpuir") / "bin"
    real = str(programs / "bishengir-compile")
    # Nothing that this starts may load the device.
    os.environ.update(INDUCTOR_NPU_PROVIDER="none", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    os.environ["PATH"] = os.pathsep.join([str(CANN / "tools"), str(programs), "/usr/bin", "/bin"])
    if "-o" not in arguments:
        return subprocess.run([real, *arguments], check=False).returncode
    place = arguments.index("-o")
    source, out = Path(arguments[0]), arguments[place + 1]
    flags = [*arguments[1:place], *arguments[place + 2 :]]
    kept = KERNELS / f"{hashlib.sha256('|'.join([source.read_text(), *flags]).encode()).hexdigest()}.so"
    if not kept.is_file():
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([real, str(source), *flags, "-o", f"{folder}/kernel"], check=False)
            if done.returncode:
                return done.returncode
            _keep(_shared_object(source.read_text(), flags, programs, Path(folder)), kept)
    for name in _NAMES:
        shutil.copyfile(kept, out + name)
    return 0


def _shared_object(linalg: str, flags: list[str], programs: Path, folder: Path) -> Path:
    from inductor_npu.ascend.execute import lowering, native
    from inductor_npu.ascend.toolchain.families import family_of

    target = next(flag.partition("=")[2] for flag in flags if flag.startswith("--target="))
    program = None
    for level in (lowering.Level.MIDDLE_END, lowering.Level.FRONT_END):
        try:
            program = lowering.lower(linalg, target, level, programs, folder)
            break
        except lowering.CannotExecuteError as error:
            print(f"stand-in CANN: {level.value}: {error}", file=sys.stderr)
    if program is None:
        raise SystemExit(3)
    code, _ = native.object_of(program)
    (folder / "kernel.o").write_bytes(code)
    texts = {"leading": program.leading, "parameters": program.parameters, "family": (family_of(target).name,)}
    (folder / "texts.c").write_text("".join(_text(name, lines) for name, lines in texts.items()))
    made = folder / "kernel.so"
    command = ["gcc", "-shared", "-fPIC", "-o", str(made), str(folder / "texts.c"), str(folder / "kernel.o"), "-lm"]
    subprocess.run(command, check=True)
    return made


def _text(name: str, lines: tuple[str, ...]) -> str:
    """C for a string of these lines."""
    quoted = "".join(f'"{line}\\n"' for line in lines)
    return f'const char standin_{name}[] = "" {quoted};\n'


def _keep(made: Path, kept: Path) -> None:
    """Other processes see all of it or nothing."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as file:
        file.write(made.read_bytes())
    os.replace(file.name, kept)
