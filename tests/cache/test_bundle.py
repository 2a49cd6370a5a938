"""The cache as one file, and in torch's own bundle: elsewhere nothing has to be compiled."""

from __future__ import annotations

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner, Result

from inductor_npu import config
from inductor_npu.cache import bundle
from inductor_npu.cache.entry import Entry, Key
from inductor_npu.cache.location import kernel_store
from inductor_npu.cli import app
from inductor_npu.errors import NpuWarning
from tests.cache.programs import X, must_hit, run, softmax

pytestmark = pytest.mark.compiled

LONG_AGO = 1_000_000


def command(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["cache", *map(str, arguments)])


@pytest.fixture
def elsewhere(own_caches: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """A function that moves this process to caches that are empty."""

    def move() -> None:
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path / "elsewhere"))
        monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "elsewhere" / "triton"))
        assert "has no kernel at all" in must_hit()

    return move


# ---- as one file


def test_what_was_exported_need_not_be_compiled_elsewhere(elsewhere: Callable[[], None], tmp_path: Path) -> None:
    run(softmax, X)
    assert command("export", tmp_path / "bundle.zip").exit_code == 0
    elsewhere()
    told = command("import", tmp_path / "bundle.zip")
    assert told.exit_code == 0, told.output
    assert must_hit() == ""


def test_importing_twice_changes_nothing(elsewhere: Callable[[], None], tmp_path: Path) -> None:
    run(softmax, X)
    exported = bundle.export_to(tmp_path / "bundle.zip")
    assert exported.entries > 0 and exported.damaged == 0
    elsewhere()
    assert bundle.import_from(tmp_path / "bundle.zip") == exported
    before = sorted((path, path.stat().st_mtime_ns) for path in kernel_store().folder.rglob("*") if path.is_file())
    assert bundle.import_from(tmp_path / "bundle.zip") == exported
    after = sorted((path, path.stat().st_mtime_ns) for path in kernel_store().folder.rglob("*") if path.is_file())
    assert [path for path, _ in before] == [path for path, _ in after]


def test_damaged_members_are_left_out(own_caches: Path, tmp_path: Path) -> None:
    good, bad = (Entry(Key("kernel", {"source": name}), name.encode()) for name in ("good", "bad"))
    for entry in (good, bad):
        kernel_store().write(entry)
    bundle.export_to(tmp_path / "whole.zip")
    with zipfile.ZipFile(tmp_path / "whole.zip") as whole, zipfile.ZipFile(tmp_path / "cut.zip", "w") as cut:
        for name in whole.namelist():
            cut.writestr(name, whole.read(name)[:-1] if name.endswith(bad.key.digest) else whole.read(name))
    kernel_store().clear()
    told = command("import", tmp_path / "cut.zip")
    assert told.exit_code == 1
    assert "1 damaged" in told.output
    assert kernel_store().read(good.key) == good
    assert kernel_store().read(bad.key) is None


def zipped(path: Path, **members: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def refused(path: Path) -> str:
    """What importing `path` says, which fails."""
    told = command("import", path)
    assert told.exit_code == 2
    return told.stderr.replace("\n", " ")


def test_what_is_no_bundle_is_refused(own_caches: Path, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("PK is not enough")
    assert "not a zip file" in refused(tmp_path / "text")
    assert "no manifest" in refused(zipped(tmp_path / "other.zip", picture="..."))
    of_the_future = json.dumps({"format": 99, "sha256": {}})
    assert "its format is 99" in refused(zipped(tmp_path / "newer.zip", **{bundle.MANIFEST: of_the_future}))


@pytest.mark.parametrize("name", ["../escaped", "inductor/../escaped", "inductor/fxgraph/../../escaped", "/escaped"])
def test_a_bundle_cannot_write_elsewhere(own_caches: Path, tmp_path: Path, name: str) -> None:
    manifest = json.dumps({"format": bundle.FORMAT, "sha256": {name: hashlib.sha256(b"x").hexdigest()}})
    path = zipped(tmp_path / "bad.zip", **{bundle.MANIFEST: manifest, name: "x"})
    assert "does not belong there" in refused(path)
    assert not [found for found in tmp_path.rglob("*") if found.name == "escaped"]


def test_a_place_that_cannot_be_written_is_an_error_without_a_trace(own_caches: Path, tmp_path: Path) -> None:
    told = command("export", tmp_path / "missing" / "bundle.zip")
    assert told.exit_code == 2
    assert "missing" in told.stderr.replace("\n", "")  # a long path is wrapped
    assert list(tmp_path.glob("*.zip*")) == []


# ---- in torch's bundle


def test_torchs_artifacts_carry_our_entries(elsewhere: Callable[[], None]) -> None:
    torch.compiler._cache.CacheArtifactManager.clear()
    run(softmax, X)
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    content, told = saved
    assert len(told.inductor_npu_artifacts) == 1
    elsewhere()
    loaded = torch.compiler.load_cache_artifacts(content)
    assert loaded is not None and loaded.inductor_npu_artifacts == told.inductor_npu_artifacts
    assert must_hit() == ""


def test_kernels_that_were_found_are_saved_too(own_caches: Path) -> None:
    run(softmax, X)
    torch.compiler._cache.CacheArtifactManager.clear()
    assert run(softmax, X) == {"hit": 1}
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None and len(saved[1].inductor_npu_artifacts) == 1


def test_a_damaged_artifact_is_left_out_with_a_warning(own_caches: Path) -> None:
    from inductor_npu.cache.artifact import NpuCacheArtifact

    with pytest.warns(NpuWarning, match="compiled again"):
        NpuCacheArtifact("0" * 64, b"damaged").populate_cache()
    assert list(kernel_store().listed()) == []


# ---- looking after it


@pytest.fixture
def two(own_caches: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[Entry]:
    """A kernel and a tile in a cache that has nothing else."""
    monkeypatch.setenv("INDUCTOR_NPU_CACHE_DIR", str(tmp_path / "ours"))
    entries = [
        Entry(Key("kernel", {"source": "abc"}), b"x" * 2000, {"name": "triton_poi_fused_add_0"}),
        Entry(Key("tile", {"source": "def"}), b"y"),
    ]
    for entry in entries:
        kernel_store().write(entry)
    return entries


def test_info_counts_by_kind(two: list[Entry], tmp_path: Path) -> None:
    told = command("info").output
    assert str(tmp_path / "ours" / "entries") in told
    assert "2 entries" in told and "at most 1024 MiB" in told
    assert "kernel: 1" in told and "tile: 1" in told


def test_list_names_kernels(two: list[Entry]) -> None:
    told = command("list").output
    assert "triton_poi_fused_add_0" in told
    assert two[1].key.digest[:12] in told
    assert two[1].key.digest[:12] not in command("list", "--kind", "kernel").output
    assert "source=abc" in command("list", "--fields").output


def test_list_cuts_no_name_short(two: list[Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert "…" not in command("list", "--fields").output


def test_verify_finds_and_removes_the_damaged(two: list[Entry]) -> None:
    assert command("verify").exit_code == 0
    (tile,) = [listed for listed in kernel_store().listed() if listed.kind == "tile"]
    tile.path.write_bytes(b"")
    told = command("verify")
    assert told.exit_code == 1
    assert tile.digest in told.output and "it is empty" in told.output and "1 damaged" in told.output
    assert command("verify", "--remove").exit_code == 0
    assert command("verify").exit_code == 0
    assert not tile.path.exists()


def test_prune_leaves_what_was_used_lately(two: list[Entry]) -> None:
    import os

    (kernel,) = [listed for listed in kernel_store().listed() if listed.kind == "kernel"]
    os.utime(kernel.path, (LONG_AGO, LONG_AGO))
    assert "removed 1 entries" in command("prune", "--mib", 0).output
    assert [listed.kind for listed in kernel_store().listed()] == ["tile"]


def test_clear_takes_all_or_one_kind(two: list[Entry]) -> None:
    assert "removed 1 entries" in command("clear", "--kind", "tile").output
    assert "removed 1 entries" in command("clear").output
    shutil.rmtree(kernel_store().folder)
    assert "removed 0 entries" in command("clear").output


def test_a_kind_of_entries_that_there_is_not_is_a_bad_call() -> None:
    told = command("list", "--kind", "kernels")
    assert told.exit_code == 2
    assert "'kernel', 'tile', 'verdict', 'run', 'warmup', 'library'" in " ".join(told.output.replace("│", " ").split())


def test_the_mode_decides_no_code() -> None:
    before = config.save_config_portable()
    with config.patch(cache="must-hit"):
        assert config.save_config_portable() == before
