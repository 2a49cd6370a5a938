"""Where Ascend's compiler is: found in the places that are documented, and every way to fail says what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from inductor_npu.ascend import environment
from inductor_npu.ascend.environment import AscendEnvironment, find_environment, make_command
from inductor_npu.ascend.toolchain import contents
from inductor_npu.errors import (
    AscendPlatformError,
    BrokenAscendEnvironmentError,
    NoAscendEnvironmentError,
    UnknownAscendTargetError,
)
from inductor_npu.target import known_targets

NOTHING = dict.fromkeys(contents.PACKAGES)


@pytest.fixture
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No environment is to be found: neither this Python's own nor a folder. Returns the current directory."""
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    monkeypatch.setattr(contents, "describe", lambda: {"python": "3.11.7", "versions": NOTHING})
    monkeypatch.setattr(environment, "_PACKAGE", tmp_path / "checkout" / "inductor_npu")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def installed(folder: Path, **changes: object) -> dict[str, object]:
    """What `contents.describe` says of an environment with all in it, with `changes`; its programs are in `folder`."""
    (folder / "bin").mkdir()
    for program in ("bin/bishengir-compile", "bin/bishengir-compile-a5", "triton-adapter-opt"):
        (folder / program).write_text("#!/bin/sh\n")
        (folder / program).chmod(0o755)
    versions = {**NOTHING, "triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0", "torch": "2.13.0"}
    found = {"python": "3.11.7", "implementation": "CPython", "platform": "linux", "machine": "x86_64"}
    return {**found, "versions": versions, "programs": str(folder / "bin"), "adapter": str(folder), **changes}


def test_none_names_the_command_and_where_it_looked(nowhere: Path) -> None:
    with pytest.raises(NoAscendEnvironmentError) as raised:
        find_environment()
    message = str(raised.value)
    assert "`make ascend-env" in message and environment.VARIABLE in message
    assert sys.executable in message and str(nowhere / ".venv-ascend") in message


@pytest.mark.parametrize(
    ("python", "command"),
    [
        ("3.10.14", "make ascend-env"),
        ("3.11.7", "make ascend-env"),
        ("3.12.1", "make ascend-env PYTHON=python3.11"),
        ("3.9.20", "make ascend-env PYTHON=python3.11"),
    ],
)
def test_the_command_names_a_python_that_the_compiler_exists_for(python: str, command: str) -> None:
    assert make_command(python) == command


@pytest.mark.parametrize(("system", "machine"), [("darwin", "arm64"), ("win32", "AMD64"), ("linux", "riscv64")])
def test_another_platform_is_told_the_supported_ones(system: str, machine: str, monkeypatch) -> None:
    monkeypatch.setattr(sys, "platform", system)
    monkeypatch.setattr(environment.platform, "machine", lambda: machine)
    with pytest.raises(AscendPlatformError, match="Linux on x86_64 and aarch64 with CPython 3.10 and 3.11.*" + machine):
        find_environment()


def test_this_python_is_taken_if_it_has_the_compiler(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = installed(nowhere)
    monkeypatch.setattr(contents, "describe", lambda: found)
    taken = find_environment()
    assert taken.python == Path(sys.executable)
    assert taken.versions == {
        "python": "3.11.7",
        "triton-ascend": "3.2.0",
        "ascendnpu-ir": "1.2.0",
        "torch": "2.13.0",
    }


def test_a_named_folder_without_python_is_broken(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(environment.VARIABLE, str(nowhere / "gone"))
    with pytest.raises(BrokenAscendEnvironmentError, match=r"gone.*no bin/python.*make ascend-env"):
        find_environment()


def test_a_named_python_without_the_compiler_is_broken(nowhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nowhere / "bin").mkdir()
    (nowhere / "bin" / "python").write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')  # sees no packages at all
    (nowhere / "bin" / "python").chmod(0o755)
    monkeypatch.setenv(environment.VARIABLE, str(nowhere))
    with pytest.raises(BrokenAscendEnvironmentError, match="lacks triton-ascend, ascendnpu-ir, torch"):
        find_environment()


def test_a_folder_whose_python_does_not_run_is_broken(nowhere: Path) -> None:
    (nowhere / ".venv-ascend" / "bin").mkdir(parents=True)
    python = nowhere / ".venv-ascend" / "bin" / "python"
    python.write_text("#!/bin/sh\necho no such library >&2; exit 3\n")
    python.chmod(0o755)
    with pytest.raises(BrokenAscendEnvironmentError, match="status 3: no such library"):
        find_environment()


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"versions": {**NOTHING, "triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0"}}, "lacks torch"),
        (
            {"versions": NOTHING, "python": "3.12.1"},
            "lacks triton-ascend.*CPython 3.12.1.*exists for CPython 3.10 and 3.11",
        ),
        (
            {"versions": {"triton-ascend": "3.2.0", "ascendnpu-ir": "1.2.0", "torch": "2.13.0", "triton": "3.7.1"}},
            "upstream's triton 3.7.1 is installed over triton-ascend",
        ),
    ],
)
def test_what_does_not_fit_together_is_broken(changes: dict, reason: str, tmp_path: Path) -> None:
    with pytest.raises(BrokenAscendEnvironmentError, match=reason):
        environment._checked(Path("python"), installed(tmp_path, **changes))


def test_a_program_without_run_bit_says_how_to_set_it(tmp_path: Path) -> None:
    found = installed(tmp_path)
    (tmp_path / "triton-adapter-opt").chmod(0o644)
    with pytest.raises(BrokenAscendEnvironmentError, match=r"chmod \+x .*triton-adapter-opt"):
        environment._checked(Path("python"), found)


def test_a_missing_program_is_named(tmp_path: Path) -> None:
    found = installed(tmp_path)
    (tmp_path / "bin" / "bishengir-compile-a5").unlink()
    with pytest.raises(BrokenAscendEnvironmentError, match="bishengir-compile-a5 is missing"):
        environment._checked(Path("python"), found)


def test_identity_follows_the_versions(tmp_path: Path) -> None:
    def identity(**versions: str) -> str:
        return AscendEnvironment(Path("python"), versions, tmp_path, tmp_path).identity

    assert identity(torch="2.13.0") == identity(torch="2.13.0") != identity(torch="2.12.0")


@pytest.mark.ascend
def test_the_real_one_is_complete(ascend: AscendEnvironment) -> None:
    assert set(ascend.versions) == {"python", "triton-ascend", "ascendnpu-ir", "torch"}
    assert ascend.versions["triton-ascend"].startswith("3.2")
    assert ascend.adapter.is_file()


@pytest.mark.ascend
def test_the_compilers_chips_are_the_known_targets(ascend: AscendEnvironment) -> None:
    # Other tests of this process may have registered chips of their own.
    assert sorted(ascend.targets) == [name for name in known_targets() if name.startswith("Ascend")]


@pytest.mark.ascend
def test_an_unknown_target_is_told_the_known_ones(ascend: AscendEnvironment) -> None:
    with pytest.raises(UnknownAscendTargetError, match=r"'Ascend310'.*Ascend910B3.*Ascend910_9392.*Ascend950PR_9589"):
        ascend.check_target("Ascend310")
