"""Runs Python with the embedded NPU's C++ under ThreadSanitizer, in a build folder of its own:

    python tools/thread_sanitizer.py -m pytest -q tests/device/test_threads.py

Of the device, the sources that threads share state in are instrumented (SOURCES); the others are as they always are.
Memory that compiled kernels use is not watched, nor are PyTorch and Python, but their locks are known to the sanitizer.
Prints what the sanitizer reports; exits with 66 if it reports anything, else as Python does.
INDUCTOR_NPU_SANITIZED names the build folder (default: below the folder for temporary files).
"""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tempfile
from pathlib import Path

# Without the suffix .cpp.
SOURCES = {
    "allocator",
    "device",
    "device_memory",
    "driver_host",
    "graph",
    "host_operators",
    "host_threads",
    "kernel",
    "launch_work",
    "launcher",
    "library_host",
    "memory_history",
    "observer",
    "pinned",
    "program_pool",
    "recording",
    "replayed_call",
    "streams",
    "timeline",
    "waits",
    "work_queue",
}
_FLAGS = ("-fsanitize=thread", "-g1", "-fno-omit-frame-pointer")
_FOLDER = Path(os.environ.get("INDUCTOR_NPU_SANITIZED", Path(tempfile.gettempdir()) / "inductor_npu_sanitized"))

# Of the C library, which gives memory of threads that ended to new ones, and of PyTorch, whose reference counts are not
# instrumented.
_SUPPRESSIONS = "race:_dl_deallocate_tls\nrace:torch::autograd::\n"


def main() -> int:
    """Builds what is missing, runs Python, and returns its exit status."""
    _build()
    compiler = ["gcc", "-print-file-name=libtsan.so"]
    sanitizer = subprocess.run(compiler, capture_output=True, text=True, check=True).stdout.strip()
    suppressions = _FOLDER / "suppressions"
    suppressions.write_text(_SUPPRESSIONS)
    options = f"suppressions={suppressions} report_signal_unsafe=0 exitcode=66 {os.environ.get('TSAN_OPTIONS', '')}"
    environment = {
        **os.environ,
        "LD_PRELOAD": sanitizer,
        "TSAN_OPTIONS": options,
        "INDUCTOR_NPU_CACHE_DIR": str(_FOLDER),
    }
    # The sanitizer wants memory where programs without address randomisation have it.
    return subprocess.run(["setarch", "-R", sys.executable, *sys.argv[1:]], env=environment, check=False).returncode


def _build() -> None:
    """The device's libraries in the build folder, at the place where the package looks for them."""
    from inductor_npu.device import build
    from inductor_npu.support import cpp_objects, host_compiler

    compiler = host_compiler.find()
    assert compiler is not None, "no C++ compiler"
    runtime, python = build._compilation(compiler, build._RUNTIME_FLAGS), build._compilation(compiler, (), True)
    folders = build._folders()
    pairs = []
    for source in (path for folder in folders for path in build._files(folder) if path.suffix == ".cpp"):
        how = python if any(folder / build._OF_PYTHON in source.parents for folder in folders) else runtime
        if source.stem in SOURCES:
            how = dataclasses.replace(how, flags=(*how.flags, *_FLAGS), kept=_FOLDER / "objects")
        pairs.append((how, source))
    os.environ["INDUCTOR_NPU_CACHE_DIR"] = str(_FOLDER)
    library = build._library_path(compiler)
    if not library.exists():
        print(f"building with {_FLAGS[0]} in {_FOLDER} ...", file=sys.stderr)
        library.parent.mkdir(parents=True, exist_ok=True)
        objects = cpp_objects.compile_all(pairs)
        of_python = [made for (how, source), made in zip(pairs, objects) if "python" in source.parent.name]
        build._link(compiler, [made for made in objects if made not in of_python], of_python, library)


if __name__ == "__main__":
    sys.exit(main())
