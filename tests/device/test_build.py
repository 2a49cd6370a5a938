"""Building the C++ device: once, in the cache directory, with errors that say what to install."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from inductor_npu.device import build
from inductor_npu.errors import CacheDirectoryError, DeviceBuildError, NoCompilerError
from inductor_npu.support import cpp_objects
from tests.device.npu_process import run_on_npu

SMALL_SOURCE = """
#include <Python.h>
static PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_C", nullptr, -1, nullptr};
PyMODINIT_FUNC PyInit__C() {
  PyObject* module = PyModule_Create(&definition);
  PyModule_AddIntConstant(module, "answer", 42);
  return module;
}
"""


@pytest.fixture
def sources(tmp_path, monkeypatch) -> Path:
    """A small extension in place of the device, and an empty cache."""
    directory = tmp_path / "csrc"
    (directory / "python").mkdir(parents=True)
    (directory / "python" / "module.cpp").write_text(SMALL_SOURCE)
    (directory / "runtime.cpp").write_text("int answer() { return 42; }")
    monkeypatch.setattr(build, "_folders", lambda: (directory,))
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", str(tmp_path / "cache"))
    return directory


def answer_of(library: Path) -> int:
    spec = importlib.util.spec_from_file_location("_C", library)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.answer


@pytest.mark.embedded
def test_builds_once_into_the_cache_and_says_so(sources, tmp_path, capfd):
    assert not build.is_built()
    library = build.build()
    assert library.is_relative_to(tmp_path / "cache") and build.is_built()
    assert answer_of(library) == 42
    assert "inductor-npu: building the embedded NPU's device (once, about" in capfd.readouterr().err
    assert build.build() == library
    assert capfd.readouterr().err == ""


def test_a_changed_source_or_header_is_another_library(sources):
    header = sources / "part.h"
    header.write_text("// one")
    first = build.build()
    header.write_text("// two")
    assert not build.is_built()
    assert build.build() != first


def test_the_headers_of_a_source_are_ours_each_once(sources):
    """A library's own, between quotation marks, too, are not among them; two of ours may include each other."""
    headers = {
        "first.h": '#pragma once\n#include "second.h"\n#include <vector>\n',
        "second.h": '#pragma once\n#include "first.h"\n#include "third.h"\n',
        "third.h": "#pragma once\n",
    }
    for name, text in headers.items():
        (sources / name).write_text(text)
    source = sources / "module.cpp"
    source.write_text('#include "torch/extension.h"\n#include "first.h"\n#include "third.h"\n')
    assert cpp_objects.with_headers(source, [sources]) == [
        source,
        *(sources / name for name in ("first.h", "third.h", "second.h")),
    ]


def test_only_what_changed_is_compiled(sources):
    (sources / "other.cpp").write_text("int other() { return 1; }")
    build.build()
    (sources / "other.cpp").write_text("int other() { return 2; }")
    objects = build.cache_directory() / "device" / "objects"
    before = {path.name for path in objects.iterdir()}
    build.build()
    assert [path.name.split("-")[0] for path in objects.iterdir() if path.name not in before] == ["other"]


def test_several_processes_build_once(sources):
    finished = run_on_npu(
        f"""
        import os, pathlib
        from inductor_npu.device import build
        build._folders = lambda: (pathlib.Path({str(sources)!r}),)
        for _ in range(4):
            if os.fork() == 0:
                build.build()
                os._exit(0)
        print([os.wait()[1] for _ in range(4)])
        """
    )
    assert finished.lines() == ["[0, 0, 0, 0]"], finished.stderr
    assert finished.stderr.count("building the embedded NPU's device") == 1


def test_without_a_compiler_it_says_what_to_install(sources, monkeypatch):
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.delenv("CXX", raising=False)
    with pytest.raises(NoCompilerError, match=r"needs a C\+\+20 compiler.*`apt-get install g\+\+`"):
        build.build()


def test_without_a_compiler_the_first_tensor_says_so(tmp_path):
    finished = run_on_npu(
        """
        import torch
        print(torch.npu.is_available(), torch.npu.device_count())
        torch.ones(2, device="npu")
        """,
        INDUCTOR_NPU_CACHE_DIR=str(tmp_path),
        PATH=str(tmp_path),
        CXX="",
    )
    assert finished.returncode != 0 and finished.stdout.split() == ["False", "1"]
    assert "NoCompilerError: the embedded NPU's device must be built once" in finished.stderr
    assert "`apt-get install g++`" in finished.stderr


def test_without_a_compiler_what_is_built_still_loads(sources, monkeypatch):
    library = build.build()
    monkeypatch.setenv("PATH", "/nonexistent")
    assert build.is_built() and build.build() == library


def test_cxx_chooses_the_compiler(sources, monkeypatch, tmp_path):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NoCompilerError, match="tried: no-such-compiler"):
        build.build()
    monkeypatch.setenv("CXX", shutil.which("g++"))
    assert build.build().exists()


def test_a_compiler_that_links_its_runtime_statically_still_shares_it(sources, monkeypatch, tmp_path):
    wrapper = tmp_path / "static-g++"
    wrapper.write_text('#!/bin/sh\nexec g++ "$@" -static-libstdc++\n')
    wrapper.chmod(0o755)
    monkeypatch.setenv("CXX", str(wrapper))
    (sources / "other.cpp").write_text("void fail() { throw 1; }")
    assert b"libstdc++.so.6" in build.runtime_library().read_bytes()


def test_a_source_that_does_not_compile_shows_the_compiler_s_words(sources):
    (sources / "broken.cpp").write_text("int broken( {")
    with pytest.raises(DeviceBuildError, match=r"(?s)failed while compiling broken\.cpp.*error: "):
        build.build()
    assert not build.is_built()


def test_a_compiler_that_is_none_is_not_taken_for_a_bad_cache(sources, monkeypatch, tmp_path):
    for name, content in (("no-program", "nonsense"), ("does-nothing", "#!/bin/sh\nexit 0\n")):
        compiler = tmp_path / name
        compiler.write_text(content)
        compiler.chmod(0o755)
        monkeypatch.setenv("CXX", str(compiler))
        with pytest.raises(
            DeviceBuildError, match=rf"failed while compiling runtime\.cpp.*CXX chooses one.*\s.*{name}"
        ):
            build.build()


@pytest.mark.slow
@pytest.mark.embedded
def test_a_library_that_was_damaged_is_built_again(tmp_path):
    (tmp_path / "csrc" / "python").mkdir(parents=True)
    (tmp_path / "csrc" / "runtime.cpp").write_text("int answer() { return 42; }")
    (tmp_path / "csrc" / "python" / "module.cpp").write_text(
        SMALL_SOURCE.replace(
            '"answer", 42);',
            """"answer", 42);
  PyObject_SetAttrString(module, "configure", (PyObject*)&PyDict_Type);
  PyObject_SetAttrString(module, "ask_for_host_threads", (PyObject*)&PyFloat_Type);""",
        )
    )
    finished = run_on_npu(
        f"""
        import pathlib, torch
        from inductor_npu.device import build
        build._folders = lambda: (pathlib.Path({str(tmp_path / "csrc")!r}),)
        build.build().write_bytes(b"half a library")
        print(build.load().answer)
        """,
        INDUCTOR_NPU_CACHE_DIR=str(tmp_path / "cache"),
    )
    assert finished.lines() == ["42"]
    assert finished.stderr.count("NpuWarning") == 1
    assert "_C.so is damaged and built again" in finished.stderr


def test_a_cache_directory_that_cannot_be_written_is_named(sources, monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", str(tmp_path / "file"))
    with pytest.raises(CacheDirectoryError, match=r"cannot be built in .*file: .*Set INDUCTOR_NPU_CACHE_DIR"):
        build.build()


def test_the_cache_directory_follows_the_environment(monkeypatch):
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", "/one")
    assert build.cache_directory() == Path("/one")
    monkeypatch.delenv("INDUCTOR_NPU_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", "/two")
    assert build.cache_directory() == Path("/two/inductor_npu")
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert build.cache_directory() == Path.home() / ".cache" / "inductor_npu"


@pytest.mark.embedded
def test_loading_imports_no_build_tools():
    finished = run_on_npu(
        """
        import sys, torch
        from inductor_npu.device import build
        build.load()
        heavy = ("torch.utils.cpp_extension", "setuptools", "filelock", "triton")
        print([name for name in heavy if name in sys.modules])
        """
    )
    assert finished.lines() == ["[]"]


@pytest.mark.budget
def test_loading_is_quick():
    finished = run_on_npu(
        """
        import time, torch
        from inductor_npu.device import build
        build.build()
        began = time.perf_counter()
        build.load()
        print(time.perf_counter() - began)
        """
    )
    assert float(finished.lines()[-1]) < 0.15


@pytest.mark.slow
def test_the_package_builds_it_when_it_is_run():
    command = [sys.executable, "-m", "inductor_npu.device"]
    finished = subprocess.run(command, capture_output=True, text=True, check=True)
    assert finished.stdout.splitlines() == [str(build.build())]
    assert "Warning" not in finished.stderr
