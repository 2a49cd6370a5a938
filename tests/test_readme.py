"""The README's program does what the README says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from tests.processes import run_forked

README = Path(__file__).resolve().parents[1] / "README.md"


def snippet_with(text: str) -> str:
    """The Python snippet that contains `text`."""
    snippets = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    return next(snippet for snippet in snippets if text in snippet)


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the first look at a kernel prints: Inductor's output code, without the log's prefixes."""
    program = tmp_path_factory.mktemp("readme") / "program.py"
    program.write_text(snippet_with("torch.nn.functional.gelu"))
    finished = run_forked(
        "import runpy, torch._inductor.config\n"
        "with torch._inductor.config.patch(force_disable_caches=True):\n"
        f"    runpy.run_path({str(program)!r})\n",
        TORCH_LOGS="output_code",
        INDUCTOR_NPU_STRICT="1",
    )
    finished.lines()
    return "\n".join(line.partition("[__output_code] ")[2] for line in finished.stderr.splitlines())


def test_the_first_look_at_a_kernel_prints_one(generated: str) -> None:
    assert generated.count("@triton.jit") == 1
    assert "triton_poi_fused_gelu" in generated


@pytest.mark.skipif(not torch.__version__.startswith("2.13."), reason="the README shows the kernel of torch 2.13")
def test_it_is_the_kernel_that_the_readme_shows(generated: str) -> None:
    printed = generated[generated.index("@triton.jit") :].partition("\n'''")[0]
    assert snippet_with("@triton.jit").strip() == printed, f"put what is generated now into the README:\n{printed}"


def test_settings_are_documented_and_what_is_documented_exists() -> None:
    named = set(re.findall(r"INDUCTOR_NPU_[A-Z_]+", README.read_text()))
    elsewhere = {
        name
        for page in README.parent.glob("docs/**/*.md")
        for name in re.findall(r"INDUCTOR_NPU_[A-Z_]+", page.read_text())
    }
    sources = "".join(path.read_text() for path in (README.parent / "inductor_npu").rglob("*.py"))
    read = set(re.findall(r"\"(INDUCTOR_NPU_[A-Z_]+)\"", sources))
    assert named - read == set()
    assert read - named - elsewhere == set()
