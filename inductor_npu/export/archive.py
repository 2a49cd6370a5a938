"""The file of a package: an archive of torch's format for packages (PT2) with a manifest that describes and secures it.

The runtime reads it in package_runtime/csrc/package/archive.cpp. All of a model is in the folder where PyTorch's
loader of packages looks, so that torch._inductor.aoti_load_package works as well.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

FORMAT = 1  # kFormat in package_runtime/csrc/package/loaded.cpp
_MODEL = "data/aotinductor/model/"
# What PyTorch's reader of archives looks for, and tells its loader for which device the model is.
_OF_PYTORCH = {
    "archive_format": b"pt2",
    "archive_version": b"0",
    ".data/version": b"6\n",
    "byteorder": b"little",
    f"{_MODEL}kernels.wrapper_metadata.json": json.dumps({"AOTI_DEVICE_KEY": "npu"}).encode(),
    # torch 2.12 looks for the file before by the name of this one; no other version reads it.
    f"{_MODEL}kernels.wrapper.cpp": b"// The kernels are in kernels.wrapper.so.\n",
}
_WHEN = (1980, 1, 1, 0, 0, 0)  # the same package has the same bytes


def write_archive(path: Path, manifest: Mapping[str, Any], members: Mapping[str, bytes]) -> None:
    """Writes the package `path`, whole or not at all: `manifest` with the checksum of each of `members`. Raises OSError
    where it cannot be written.
    """
    all_members = {**_OF_PYTORCH, **{f"{_MODEL}{name}": data for name, data in members.items()}}
    digests = {name: digest(data) for name, data in all_members.items()}
    text = json.dumps({**manifest, "sha256": digests}, indent=1).encode()
    written = {
        **all_members,
        f"{_MODEL}manifest.json": text,
        f"{_MODEL}manifest.sha256": digest(text).encode(),
    }
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
    try:
        with os.fdopen(handle, "wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
            for name, data in written.items():
                archive.writestr(zipfile.ZipInfo(f"{path.stem}/{name}", _WHEN), data)
        os.chmod(temporary, 0o666 & ~_mask())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def digest(data: bytes) -> str:
    """SHA-256 of `data`, in hexadecimal digits."""
    return hashlib.sha256(data).hexdigest()


def _mask() -> int:
    """The permissions that this process gives to none of its files; reading means setting."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
