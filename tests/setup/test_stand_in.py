"""Libraries that look for a package torch_npu find the embedded NPU where it is asked for, and are named otherwise."""

from __future__ import annotations

from pathlib import Path

from tests.processes import run_python

# What accelerate, and transformers with it, do before they use an NPU.
ACCELERATE = """
import importlib.util

def is_npu_available():
    if importlib.util.find_spec("torch_npu") is None:
        return False
    import torch
    import torch_npu
    return hasattr(torch, "npu") and torch.npu.is_available()
"""


def with_accelerate(folder: Path) -> Path:
    (folder / "accelerate").mkdir()
    (folder / "accelerate" / "__init__.py").write_text("from accelerate.state import is_npu_available\n")
    (folder / "accelerate" / "state.py").write_text(ACCELERATE)
    return folder


def test_it_is_torch_npu_and_no_provider(tmp_path: Path) -> None:
    finished = run_python(
        """
        import torch, accelerate
        print(accelerate.is_npu_available())
        import torch_npu, torch_npu.npu
        from torch_npu import npu_fusion_attention
        from inductor_npu import providers
        print(torch_npu.npu is torch.npu, torch.__version__.startswith(torch_npu.__version__))
        print(providers.current_provider().name, torch.ones(1).to("npu").device)
        for use in (lambda: torch_npu.npu_rms_norm, npu_fusion_attention):
            try:
                use()
            except (AttributeError, NotImplementedError) as error:
                print(error)
        """,
        path=with_accelerate(tmp_path),
        INDUCTOR_NPU_AS_TORCH_NPU="1",
        INDUCTOR_NPU_PROVIDER="",
    )
    lines = finished.lines()
    assert lines[:3] == ["True", "True True", "simulator npu:0"]
    assert "no attribute 'npu_rms_norm'" in lines[3]
    assert "scaled_dot_product_attention" in lines[4]
    assert "NpuWarning" not in finished.stderr


def test_who_does_not_ask_for_it_is_told_that_the_cpu_is_chosen(tmp_path: Path) -> None:
    code = "import torch, accelerate; print(accelerate.is_npu_available())"
    folder = with_accelerate(tmp_path)
    told, silenced = (run_python(code, path=folder, **values) for values in ({}, {"INDUCTOR_NPU_AS_TORCH_NPU": "0"}))
    assert told.lines() == silenced.lines() == ["False"]
    assert told.stderr.count("NpuWarning") == 1
    for part in ("accelerate", "torch_npu", "INDUCTOR_NPU_AS_TORCH_NPU=1"):
        assert part in told.stderr
    assert silenced.stderr == ""


def test_it_comes_with_the_embedded_npu_only() -> None:
    code = "import importlib.util, torch; print(importlib.util.find_spec('torch_npu'))"
    assert run_python(code, INDUCTOR_NPU_PROVIDER="none", INDUCTOR_NPU_AS_TORCH_NPU="1").lines() == ["None"]
