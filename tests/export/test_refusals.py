"""Packages that are damaged or do not fit: one clear line, nothing executed, and the process goes on."""

from __future__ import annotations

import hashlib
import json
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import inductor_npu
from inductor_npu.errors import PackageError
from tests.export.models import MODEL

pytestmark = pytest.mark.compiled


def refusal(path: Path) -> str:
    with pytest.raises(PackageError) as refused:
        inductor_npu.load_package(path)
    message = str(refused.value)
    assert "\n" not in message and message.startswith(f"package {path} cannot be loaded: ")
    return message.partition("cannot be loaded: ")[2]


def altered(path: Path, to: Path, change: Callable[[dict[str, bytes]], None]) -> Path:
    """A package whose members `change` changed, by their path in the archive."""
    with zipfile.ZipFile(path) as archive:
        members = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
    change(members)
    with zipfile.ZipFile(to, "w") as archive:
        for name, data in members.items():
            archive.writestr(f"model/{name}", data)
    return to


def with_manifest(path: Path, to: Path, **changes: Any) -> Path:
    """A package, whole, that says something else of itself."""

    def change(members: dict[str, bytes]) -> None:
        manifest = {**json.loads(members[f"{MODEL}manifest.json"]), **changes}
        members[f"{MODEL}manifest.json"] = json.dumps(manifest).encode()
        members[f"{MODEL}manifest.sha256"] = hashlib.sha256(members[f"{MODEL}manifest.json"]).hexdigest().encode()

    return altered(path, to, change)


def test_of_another_version_target_provider_or_processor(classifier, tmp_path: Path):
    path, target = classifier[1], {"vector_cores": 1, "max_grid": 1, "memory": None}
    for changes, message in (
        ({"format": 2}, "its format is 2 (inductor-npu 0.1.0), and this version reads 1: make it again"),
        ({"provider": "ascend"}, "it is for provider ascend, and device npu of this process is the embedded NPU"),
        (
            {"target": {"name": "Ascend310B4", **target}},
            "it is for target Ascend310B4, and device npu of this process is ",
        ),
        ({"machine": {"architecture": "s390x", "features": []}}, "its kernels are for processors of kind s390x"),
        (
            {"machine": {**inductor_npu.load_package(path).manifest["machine"], "features": ["warp9"]}},
            "its kernels need a processor with warp9, which this one lacks",
        ),
    ):
        assert refusal(with_manifest(path, tmp_path / "model.pt2", **changes)).startswith(message)
    inductor_npu.load_package(path)(torch.randn(2, 16, device="npu"))


def test_truncated_anywhere(classifier, tmp_path: Path):
    whole = classifier[1].read_bytes()
    for length in (0, 1, 100, len(whole) // 3, len(whole) // 2, len(whole) - 100, len(whole) - 1):
        (tmp_path / "model.pt2").write_bytes(whole[:length])
        assert "it is not a package, or truncated" in refusal(tmp_path / "model.pt2")


def test_one_byte_altered_in_any_member(classifier, tmp_path: Path):
    whole, path = classifier[1].read_bytes(), tmp_path / "model.pt2"
    with zipfile.ZipFile(classifier[1]) as archive:
        members = archive.infolist()
    assert len(members) == 11
    for member in members:
        start = member.header_offset + 30 + len(member.filename)
        for place in {start, start + member.file_size // 2, start + member.file_size - 1}:
            damaged = bytearray(whole)
            damaged[place] ^= 1
            path.write_bytes(damaged)
            assert "damaged: the checksum does not match" in refusal(path), member.filename


def test_a_damaged_directory(classifier, tmp_path: Path):
    """Of the archive: either nothing that counts was damaged, or the package is refused."""
    whole, path, numbers = classifier[1].read_bytes(), tmp_path / "model.pt2", random.Random(0)
    directory = whole.index(b"PK\x01\x02")
    refusals = []
    for _ in range(200):
        damaged = bytearray(whole)
        damaged[numbers.randrange(directory, len(whole))] = numbers.randrange(256)
        path.write_bytes(damaged)
        try:
            inductor_npu.load_package(path)
        except PackageError as error:
            refusals.append(str(error))
    assert len(refusals) > 100 and not [message for message in refusals if "\n" in message]


def test_members_that_are_missing_or_too_many(classifier, tmp_path: Path):
    path = tmp_path / "model.pt2"
    for name in ("program.json", "kernels.wrapper.so", "weights.safetensors"):
        altered(classifier[1], path, lambda members, name=name: members.pop(MODEL + name))
        assert refusal(path) == f"it has no {MODEL}{name}"
    altered(classifier[1], path, lambda members: members.pop(f"{MODEL}manifest.sha256"))
    assert refusal(path) == "it has no manifest: it is not a package of inductor-npu"
    altered(classifier[1], path, lambda members: members.update({f"{MODEL}more.so": b""}))
    assert refusal(path) == f"it has a member that does not belong there: {MODEL}more.so"


def test_files_that_are_no_packages(tmp_path: Path):
    assert refusal(tmp_path / "missing.pt2") == "it cannot be read: No such file or directory"
    assert refusal(tmp_path) == "it is not a file"
    with zipfile.ZipFile(tmp_path / "other.pt2", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a/b", b"x" * 1000)
    assert "compressed" in refusal(tmp_path / "other.pt2")


def test_a_program_that_was_written_by_somebody_else(classifier, tmp_path: Path):
    """With checksums that are right: it names values, operators and instructions that do not exist."""
    path = tmp_path / "model.pt2"

    def wrong(instruction: dict[str, Any]) -> Callable[[dict[str, bytes]], None]:
        def change(members: dict[str, bytes]) -> None:
            name = f"{MODEL}program.json"
            program = json.loads(members[name])
            program["program"]["instructions"][0] = {**instruction, "last": []}
            members[name] = json.dumps(program).encode()
            manifest = json.loads(members[f"{MODEL}manifest.json"])
            manifest["sha256"][name] = hashlib.sha256(members[name]).hexdigest()
            members[f"{MODEL}manifest.json"] = json.dumps(manifest).encode()
            digest = hashlib.sha256(members[f"{MODEL}manifest.json"]).hexdigest()
            members[f"{MODEL}manifest.sha256"] = digest.encode()

        return change

    for instruction, message in (
        ({"do": "explode"}, "its program has an instruction that this version does not know: explode"),
        (
            {"do": "compute", "function": "add", "operands": [1, {"r": 9999}], "to": 0},
            "names a value that does not exist",
        ),
        ({"do": "compute", "function": "add", "operands": [1, 2], "to": -1}, "names a value that does not exist"),
        ({"do": "compute", "function": "exec", "operands": ["x"], "to": 0}, "its program computes exec"),
        (
            {"do": "call", "operator": "mine::op", "overload": "", "arguments": {}, "to": []},
            "it calls mine::op, which this process does not have",
        ),
        (
            {
                "do": "call",
                "operator": "aten::relu",
                "overload": "",
                "arguments": {"self": {"r": 0}, "x": 1},
                "to": [0],
            },
            "its call of aten::relu does not fit this torch: it has an argument that this torch does not know",
        ),
        ({"do": "launch", "kernel": 99, "grid": [1, 1, 1], "arguments": []}, "launches a kernel that it does not have"),
    ):
        assert message in refusal(altered(classifier[1], path, wrong(instruction)))
