"""What decides the generated code, by name: each field follows what it is named after, and nothing else changes it."""

from __future__ import annotations

import ast
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import inductor_npu
from inductor_npu import identity, providers
from inductor_npu.lowering.graph_passes.passes import NpuGraphPasses
from inductor_npu.support import versions
from tests.processes import run_forked

PACKAGE = Path(inductor_npu.__file__).parent
Patch = pytest.MonkeyPatch


def changed_fields(before: dict[str, str]) -> list[str]:
    after = identity.generation_fields()
    assert before.keys() == after.keys()
    return [name for name in before if before[name] != after[name]]


# ---- sources


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The package's sources in another directory."""
    root = tmp_path / "copied"
    shutil.copytree(PACKAGE, root, ignore=shutil.ignore_patterns("__pycache__", "csrc"))
    return root


def hashes(root: Path) -> dict[str, str]:
    identity._hash_below.cache_clear()
    parts = {
        "code generation": identity._GENERATING,
        "compiler": identity._COMPILER,
        "device functions": identity._DEVICE_FUNCTIONS,
        "launching": identity._LAUNCHING,
    }
    return {name: identity._hash_below(root, of) for name, of in parts.items()}


def test_another_directory_has_the_same_hashes(copied: Path) -> None:
    assert hashes(copied) == hashes(PACKAGE)


@pytest.mark.parametrize(
    ("file", "changed"),
    [
        ("codegen/scheduling/npu_scheduling.py", ["code generation"]),
        ("setup/compat.py", ["code generation"]),
        ("config.py", ["code generation"]),
        ("device_interface/interface.py", ["code generation"]),
        ("providers.py", ["code generation"]),
        ("setup/registration.py", ["code generation"]),
        ("target/ascend.py", ["code generation"]),
        ("tiling/plan.py", ["code generation"]),
        ("runtime/launcher.py", ["code generation", "launching"]),
        ("runtime/device_functions/__init__.py", ["code generation", "device functions"]),
        ("simulator/triton_backend/codegen/emit/lanes.py", ["compiler"]),
        ("cache/kernels.py", ["launching"]),
        ("cache/store.py", []),
        ("ascend/checking.py", []),
        ("cli.py", []),
        ("simulator/host/settings.py", []),
    ],
)
def test_a_changed_source_changes_what_depends_on_it(copied: Path, file: str, changed: list[str]) -> None:
    before = hashes(copied)
    with (copied / file).open("a") as source:
        source.write("# changed\n")
    after = hashes(copied)
    assert [name for name in before if before[name] != after[name]] == changed


def test_a_file_that_moves_is_another_source(copied: Path) -> None:
    before = hashes(copied)
    (copied / "codegen" / "emit" / "masked_lanes.py").rename(copied / "codegen" / "emit" / "filling.py")
    assert hashes(copied)["code generation"] != before["code generation"]


def test_sources_that_cannot_be_read_are_never_found_again(tmp_path: Path) -> None:
    missing = [tmp_path / "missing.py"]
    assert identity.hash_files(tmp_path, missing) != identity.hash_files(tmp_path, missing)


def test_graph_passes_have_sources_that_can_be_read() -> None:
    """Inductor keys its graphs by this: were it another text in each process, none would ever be found."""
    assert NpuGraphPasses().uuid().startswith(f"{identity.source_hash(['lowering/graph_passes'])},")


# What the code generator imports of this package beside what is hashed, and why no generated code follows it.
DECIDES_NO_CODE = {
    "ascend_chip": "drives the device; what it takes for too large a kernel is in the hash",
    "cache": "keeps what was generated under keys that say all that decided it",
    "diagnostics": "measures, and tells what was done",
    "errors.py": "what is raised is not kept",
    "identity.py": "the hash itself: another way to take it gives other keys",
    "setup/__init__.py": "has no code",
    "setup/arrival.py": "decides when something is registered, not what",
    "setup/flex_attention.py": "decides what is compiled at all, not what code it gets",
    "setup/garbage.py": "decides when memory is freed",
    "simulator/__init__.py": "has no code",
    "simulator/memory_check.py": "says whether kernels get checks, which is in their keys",
    "support": "reads variables that are in the keys; decides when something is registered, not what",
}


def test_a_change_of_any_source_that_decides_code_is_another_key() -> None:
    """Whoever adds a module to the code generator adds it to the hash, or says here why not."""
    parts = [PACKAGE / part for part in (*identity._GENERATING, *identity._COMPILER)]
    assert all(part.exists() for part in parts)
    imported = {path for part in parts for file in identity._sources(part) for path in imported_by(file)}
    unhashed = {path.relative_to(PACKAGE) for path in imported if not any(map(path.is_relative_to, parts))}
    assert [path for path in unhashed if not any(map(path.is_relative_to, DECIDES_NO_CODE))] == []


def imported_by(file: Path) -> Iterator[Path]:
    """The files of this package that `file` imports, wherever in it."""
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        else:
            continue
        for name in names:
            path = PACKAGE.parent.joinpath(*name.split("."))
            found = [each for each in (path.with_suffix(".py"), path / "__init__.py") if each.exists()]
            if name.startswith("inductor_npu.") and found:
                yield found[0]


# ---- versions and settings


def test_triton(monkeypatch: Patch) -> None:
    before = identity.generation_fields()
    monkeypatch.setattr(versions, "installed_triton", lambda: ("triton", "9.9.9"))
    assert changed_fields(before) == ["triton"]


def test_the_compilers_llvm(monkeypatch: Patch) -> None:
    before = identity.generation_fields()
    monkeypatch.setattr(identity, "_version", lambda package: "9.9.9")
    assert changed_fields(before) == ["compiler"]


def test_the_target(monkeypatch: Patch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "Ascend910B3")
    before = identity.generation_fields()
    monkeypatch.setenv("INDUCTOR_NPU_TARGET", "Ascend910B4")
    assert changed_fields(before) == ["target"]


def test_the_provider(monkeypatch: Patch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "simulator")
    before = identity.generation_fields()
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "none")
    assert changed_fields(before) == ["provider"]


@pytest.fixture
def on_ascend(tmp_path: Path, monkeypatch: Patch) -> Callable[[str], None]:
    """A function that sets the version of Ascend's toolkit, in a process that has it."""
    monkeypatch.setattr(providers, "select_provider", lambda: providers.ASCEND)
    monkeypatch.setenv("ASCEND_TOOLKIT_HOME", str(tmp_path))
    (tmp_path / "x86_64-linux").mkdir()

    def install(version: str) -> None:
        (tmp_path / "x86_64-linux" / "ascend_toolkit_install.info").write_text(f"version={version}\n")

    return install


def test_ascends_toolkit(on_ascend: Callable[[str], None]) -> None:
    on_ascend("8.2")
    before = identity.generation_fields()
    on_ascend("8.2")
    assert changed_fields(before) == []
    on_ascend("8.3")
    assert changed_fields(before) == ["ascend"]


def test_ascends_packages(on_ascend: Callable[[str], None], monkeypatch: Patch) -> None:
    before = identity.generation_fields()
    monkeypatch.setattr(identity, "_version", lambda package: "9.9.9" if package != "llvmlite" else _llvmlite())
    assert changed_fields(before) == ["ascend"]


def _llvmlite() -> str:
    import importlib.metadata

    return importlib.metadata.version("llvmlite")


def test_ascends_software_decides_nothing_where_it_compiles_nothing(monkeypatch: Patch) -> None:
    monkeypatch.setenv("INDUCTOR_NPU_PROVIDER", "simulator")
    assert identity.generation_fields()["ascend"] == "none"


# ---- everywhere the same, and never in the way


def test_another_process_directory_and_home_have_the_same_identity(tmp_path: Path) -> None:
    code = "from inductor_npu import identity; print(identity.toolchain_identity())"
    environment = {**os.environ, "HOME": str(tmp_path), "PYTHONHASHSEED": "7", "TMPDIR": str(tmp_path)}
    environment["PYTHONPATH"] = str(PACKAGE.parent)
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, env=environment, capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout) == identity.generation_fields()


@pytest.mark.slow
def test_settings_that_cannot_be_honoured_do_not_disturb_code_for_cpu() -> None:
    code = """
        import warnings
        warnings.simplefilter("ignore")
        import torch
        assert torch.compile(lambda x: x.view(4), backend="inductor")(torch.ones(2, 2)).sum() == 4
        from inductor_npu import identity
        print(identity.generation_fields()["target"])
    """
    told = run_forked(code, INDUCTOR_NPU_TARGET="Ascend0", INDUCTOR_NPU_PROVIDER="simulator").lines()
    assert told[-1].startswith("none: ")
    assert run_forked(code, INDUCTOR_NPU_PROVIDER="no such thing").lines()
