"""The README's program does what the README says."""

from __future__ import annotations

import re
from pathlib import Path

from tests.processes import run_python

README = Path(__file__).resolve().parents[1] / "README.md"


def snippet_with(text: str) -> str:
    """The Python snippet that contains `text`."""
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    return next(snippet for snippet in snippets if text in snippet)


def test_the_first_look_at_a_kernel_prints_one(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(snippet_with("torch.nn.functional.gelu"))
    finished = run_python(
        f"import runpy; runpy.run_path({str(program)!r})",
        TORCH_LOGS="output_code",
        INDUCTOR_NPU_STRICT="1",
        TORCHINDUCTOR_FORCE_DISABLE_CACHES="1",
    )

    finished.lines()
    assert finished.stderr.count("@triton.jit") == 1
    assert "triton_poi_fused_gelu" in finished.stderr


def test_every_setting_in_the_table_exists() -> None:
    named = set(re.findall(r"INDUCTOR_NPU_[A-Z_]+", README.read_text()))
    sources = "".join(path.read_text() for path in (README.parent / "inductor_npu").rglob("*.py"))
    assert {name for name in named if name not in sources} == set()
