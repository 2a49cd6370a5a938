"""Programs whose cache is in a place that cannot be written: they work, without a cache, and say so once."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.cache.together import start, told

pytestmark = pytest.mark.compiled

PROGRAM = """
import warnings
from inductor_npu.errors import NpuWarning
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    x = torch.linspace(-2, 2, 600).reshape(20, 30)
    for function in (lambda x: torch.softmax(x, -1), lambda x: x.sin() + x.cumsum(-1)):
        torch.testing.assert_close(torch.compile(function)(x.to("npu")).cpu(), function(x))
texts = [str(warning.message) for warning in said if issubclass(warning.category, NpuWarning)]
tell(warnings=texts)
"""


def mounted(options: str, folder: Path) -> list[str]:
    """The beginning of a command whose `folder` is a file system of its own; skips where nobody may do that."""
    command = ["unshare", "--mount", "sh", "-c", f'mount -t tmpfs -o {options} none "$0" && exec "$@"', str(folder)]
    if shutil.which("unshare") is None or subprocess.run([*command, "true"], check=False).returncode != 0:
        pytest.skip("nothing may be mounted here")
    return command


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "reason"),
    [pytest.param("size=16k", "No space left", id="full"), pytest.param("ro", "Read-only", id="read-only")],
)
def test_a_full_or_read_only_disk_is_one_warning(options: str, reason: str, tmp_path: Path) -> None:
    folder, disk = tmp_path / "caches", tmp_path / "caches" / "ours" / "entries"
    disk.mkdir(parents=True)
    found = told(start(PROGRAM, folder, folder, under=mounted(options, disk)))
    assert found["miss"] >= 2
    assert len(found["warnings"]) == 1
    assert reason in found["warnings"][0] and "INDUCTOR_NPU_CACHE_DIR" in found["warnings"][0]
