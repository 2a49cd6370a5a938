"""The process that runs the user's program and collects its kernels; started by `program.py`.

`python -m inductor_npu.ascend.collect.child REQUEST`, where REQUEST is a `Request` as JSON. Exit status, output and
traceback are the program's own.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import runpy
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from types import ModuleType, TracebackType

from inductor_npu.ascend.collect.collector import collecting
from inductor_npu.ascend.collect.function import run_with_example_inputs

SCRIPT, MODULE, FUNCTION = "script", "module", "function"


@dataclass(frozen=True)
class Request:
    """A program to run: a script's path, the name of a module, or `path.py::function` / `package.module:function`.
    `data_limit` is the most bytes of a launch's data that are kept, None for no data.
    """

    kind: str
    name: str
    arguments: tuple[str, ...]
    folder: str
    data_limit: int | None = None
    backward: bool = True

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Request:
        data = json.loads(text)
        return cls(**{**data, "arguments": tuple(data["arguments"])})


def main(request: Request) -> None:
    """Runs the program; an exception of its own is printed with the program's part of the traceback, status 1."""
    try:
        with collecting(Path(request.folder), request.data_limit):
            _run(request)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - reported here as Python reports it
        error.__traceback__ = _of_program(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        sys.exit(130 if isinstance(error, KeyboardInterrupt) else 1)


def _run(request: Request) -> None:
    if request.kind == SCRIPT:
        sys.argv = [request.name, *request.arguments]
        sys.path[0] = str(Path(request.name).resolve().parent)
        runpy.run_path(request.name, run_name="__main__")
    elif request.kind == MODULE:
        sys.argv = [request.name, *request.arguments]
        sys.path[0] = os.getcwd()
        runpy.run_module(request.name, run_name="__main__", alter_sys=True)
    else:
        path, separator, function = request.name.rpartition("::")
        if separator:
            module = _load(Path(path))
        else:
            name, _, function = request.name.rpartition(":")
            sys.path[0] = os.getcwd()
            module = importlib.import_module(name)
        sys.argv = [request.name, *request.arguments]
        run_with_example_inputs(module, function, request.backward)


def _load(path: Path) -> ModuleType:
    """The module of a file, under the file's name, with its folder importable."""
    sys.path[0] = str(path.resolve().parent)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None, "the path ends in .py"
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def _of_program(trace: TracebackType | None) -> TracebackType | None:
    """`trace` from the first frame that is the program's: not of this file, not of Python's machinery to start it."""
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if file != __file__ and not file.startswith("<frozen ") and Path(file) != Path(runpy.__file__):
            return trace
        trace = trace.tb_next
    return None


if __name__ == "__main__":
    main(Request.from_json(sys.argv[1]))
