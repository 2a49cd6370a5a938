"""`import torch` is enough: what the entry point does, what it leaves alone, what it says when something is missing."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from inductor_npu.device import build
from tests.processes import run_forked, run_python

# Prints what of torch's state a device from outside can change.
STATE = """
    import sys, torch
    print(torch._C._get_privateuse1_backend_name(), torch.accelerator.current_accelerator(), hasattr(torch, "npu"))
"""
WITH_NPU = "npu npu True"

# Calls the entry points as `import torch` does, at a moment of the test's choosing.
WITHOUT_AUTOLOAD = {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}

# Nobody asks for a device, whatever this machine's environment says.
UNASKED = {"INDUCTOR_NPU_PROVIDER": ""}


@functools.cache
def untouched() -> str:
    """What STATE prints on this machine where our entry point does not run."""
    (line,) = run_forked(STATE, **WITHOUT_AUTOLOAD).lines()
    return line


def test_import_torch_brings_the_device() -> None:
    finished = run_python(STATE)
    assert finished.lines() == [WITH_NPU]
    assert finished.stderr == ""


def test_import_torch_imports_neither_inductor_nor_dynamo_nor_triton() -> None:
    finished = run_forked(
        """
        import sys, torch
        print(sorted({".".join(name.split(".")[:2]) for name in sys.modules} & {"torch._inductor", "torch._dynamo"}))
        print([name for name in sys.modules if name == "triton" or name == "llvmlite"])
        """
    )
    assert finished.lines() == ["[]", "[]"]


def test_import_torch_opens_no_device_and_starts_no_thread() -> None:
    finished = run_forked(
        """
        import os, threading
        import torch
        print(torch.npu.is_initialized(), threading.active_count())
        names = {open(f"/proc/self/task/{task}/comm").read().strip() for task in os.listdir("/proc/self/task")}
        print([name for name in names if "npu" in name])
        """
    )
    assert finished.lines() == ["False 1", "[]"]


@pytest.mark.parametrize(
    "use",
    [
        "torch.empty(2, device='npu')",
        "torch.Stream(device='npu')",
        "torch.Event(device='npu')",
        "torch.Generator(device='npu')",
        "torch.accelerator.synchronize()",
        "torch.accelerator.memory_allocated()",
    ],
)
def test_the_first_use_of_the_device_may_be_any(use: str) -> None:
    build.build()  # once on a machine; what a process finds built, it loads with torch
    assert run_forked(f"import torch; {use}; print('fine')").lines() == ["fine"]


@pytest.mark.budget
def test_import_torch_takes_at_most_150_ms_more(tmp_path: Path) -> None:
    # With the bytecode that an installed package has: where Python writes none, it parses 70 files each time (80 ms).
    bytecode = {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(tmp_path)}
    added = [
        float(
            run_python(
                """
                import time, torch
                start = time.perf_counter()
                torch._import_device_backends()
                print(time.perf_counter() - start)
                """,
                **WITHOUT_AUTOLOAD,
                **bytecode,
            ).lines()[-1]
        )
        for _ in range(4)  # the first one writes it
    ]
    assert min(added) <= 0.150, f"seconds added to `import torch`: {added}"


def test_torch_compile_needs_no_import_of_ours() -> None:
    finished = run_forked(
        """
        import torch
        x = torch.linspace(-3, 3, 1000, device="npu")
        y = torch.compile(lambda x: torch.sin(x) * 2 + 1, fullgraph=True)(x)
        torch.testing.assert_close(y.cpu(), torch.sin(x.cpu()) * 2 + 1)
        print(y.device)
        """
    )
    assert finished.lines() == ["npu:0"]


@pytest.mark.parametrize("first", ["torch._inductor", "torch._inductor.codecache", "torch._dynamo", "triton"])
def test_torch_compile_works_whatever_was_imported_first(first: str) -> None:
    finished = run_forked(
        f"""
        import torch
        import {first}
        x = torch.arange(100.0, device="npu")
        torch.testing.assert_close(torch.compile(lambda x: x * 3 + 1)(x).cpu(), x.cpu() * 3 + 1)
        print("compiled")
        """
    )
    assert finished.lines() == ["compiled"]


def test_provider_none_leaves_torch_alone() -> None:
    finished = run_forked(STATE, INDUCTOR_NPU_PROVIDER="none")
    assert finished.lines() == [untouched()]
    assert finished.stderr == ""


def test_unknown_provider_warns_and_names_the_known_ones() -> None:
    finished = run_forked(STATE, INDUCTOR_NPU_PROVIDER="simlator")
    assert finished.lines() == [untouched()]
    assert finished.stderr.count("NpuWarning") == 1
    for part in ("'simlator'", "ascend, simulator, cuda, none", "INDUCTOR_NPU_PROVIDER"):
        assert part in finished.stderr


def test_unknown_target_is_named_when_the_device_is_used() -> None:
    finished = run_forked("import torch; torch.npu.get_device_properties(0)", INDUCTOR_NPU_TARGET="Ascend911")
    assert finished.returncode != 0
    assert "Ascend911" in finished.stderr
    assert "Ascend910B3" in finished.stderr


def test_ascend_without_torch_npu_warns_and_says_what_to_install() -> None:
    finished = run_forked(STATE, INDUCTOR_NPU_PROVIDER="ascend")
    assert finished.lines() == [untouched()]
    assert finished.stderr.count("NpuWarning") == 1
    assert "torch_npu" in finished.stderr


def test_a_broken_installation_is_one_warning_and_torch_works() -> None:
    finished = run_forked(
        """
        import sys, torch
        sys.modules["inductor_npu.device.npu"] = None  # as if the file were missing
        torch._import_device_backends()
        print((torch.ones(2) + 1).tolist(), torch._C._get_privateuse1_backend_name(), hasattr(torch, "npu"))
        """,
        **WITHOUT_AUTOLOAD,
    )
    assert finished.lines() == ["[2.0, 2.0] privateuseone False"]
    assert finished.stderr.count("NpuWarning") == 1
    assert "inductor-npu could not start" in finished.stderr
    assert "inductor_npu.device.npu" in finished.stderr


def test_another_owner_of_privateuse1_keeps_it() -> None:
    finished = run_forked(
        """
        import torch
        torch.utils.rename_privateuse1_backend("toaster")
        torch._import_device_backends()
        print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "npu"))
        """,
        **WITHOUT_AUTOLOAD,
    )
    assert finished.lines() == ["toaster False"]
    assert finished.stderr.count("NpuWarning") == 1
    assert "'toaster'" in finished.stderr


def test_another_owner_that_kept_the_slots_own_name_keeps_it() -> None:
    finished = run_forked(
        """
        import sys, types, torch
        torch._register_device_module("privateuseone", types.ModuleType("somebody"))
        torch._import_device_backends()
        print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "npu"))
        """,
        **WITHOUT_AUTOLOAD,
    )
    assert finished.lines() == ["privateuseone False"]
    assert finished.stderr.count("NpuWarning") == 1
    assert "'privateuseone'" in finished.stderr


def test_another_backend_package_goes_first(tmp_path: Path) -> None:
    """It may load after us, and torch fails to import when two packages claim the one slot."""
    install_backend(
        tmp_path,
        "toaster",
        "def autoload():\n    import torch\n    torch.utils.rename_privateuse1_backend('toaster')\n",
    )

    finished = run_forked(STATE, path=tmp_path, **UNASKED)

    assert finished.lines() == ["toaster toaster False"]
    assert finished.stderr == ""


def test_another_backend_package_does_not_hinder_who_asks_for_npu(tmp_path: Path) -> None:
    install_backend(tmp_path, "bystander", "def autoload():\n    pass\n")

    assert run_forked(STATE, path=tmp_path, **UNASKED).lines() == [untouched()]
    assert run_forked(STATE, path=tmp_path, INDUCTOR_NPU_PROVIDER="simulator").lines() == [WITH_NPU]


def install_backend(folder: Path, name: str, source: str) -> None:
    """Puts a package with an entry point in group torch.backends into `folder`."""
    (folder / f"{name}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[torch.backends]\n{name} = {name}:autoload\n")


# A machine with a CUDA device, as far as our entry point can tell.
WITH_CUDA = """
    import sys
    import torch
    torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
    torch.cuda.device_count = lambda: 1
    torch._import_device_backends()
"""


def test_nothing_changes_where_torch_has_another_accelerator() -> None:
    finished = run_forked(
        WITH_CUDA
        + """
    print(torch._C._get_privateuse1_backend_name(), hasattr(torch, "npu"))
    print(torch.accelerator.current_accelerator(), [name for name in sys.modules if "simulator" in name])
    """,
        **WITHOUT_AUTOLOAD,
        **UNASKED,
    )
    assert finished.lines() == ["privateuseone False", "cuda []"]
    assert finished.stderr == ""


def test_importing_inductor_does_not_start_cuda() -> None:
    """A process that is forked afterwards can use it, as it can without this package."""
    finished = run_forked(
        WITH_CUDA
        + """
    import os
    def is_available():
        assert os.environ.get("PYTORCH_NVML_BASED_CUDA_CHECK") == "1", "this starts CUDA"
        return True
    torch.cuda.is_available = is_available
    import torch._inductor.utils
    print("npu" in torch._inductor.utils.GPU_TYPES)
    """,
        **WITHOUT_AUTOLOAD,
        INDUCTOR_NPU_PROVIDER="simulator",
    )
    assert finished.lines() == ["True"]


def test_the_embedded_npu_appears_beside_another_accelerator_when_asked_for() -> None:
    finished = run_forked(
        WITH_CUDA + "    print(torch.ones(2, device='npu').device)",
        **WITHOUT_AUTOLOAD,
        INDUCTOR_NPU_PROVIDER="simulator",
    )
    assert finished.lines() == ["npu:0"]


def test_enable_brings_the_device_and_child_processes_inherit_it() -> None:
    finished = run_forked(
        WITH_CUDA
        + """
    import os
    import inductor_npu
    inductor_npu.enable()
    inductor_npu.enable("simulator")
    print(torch.ones(2, device="npu").device, os.environ["INDUCTOR_NPU_PROVIDER"])
    """,
        **WITHOUT_AUTOLOAD,
    )
    assert finished.lines() == ["npu:0 simulator"]


def test_enable_refuses_a_second_provider_and_an_unknown_one() -> None:
    finished = run_forked(
        """
        import torch, inductor_npu
        from inductor_npu.errors import ProviderChangeError, UnknownProviderError
        for name, error in (("ascend", ProviderChangeError), ("quantum", UnknownProviderError)):
            try:
                inductor_npu.enable(name)
            except error as raised:
                print(raised)
        """
    )
    lines = finished.lines()
    assert "'simulator'" in lines[0]
    assert "'ascend'" in lines[0]
    assert "ascend, simulator, cuda" in lines[1]


def test_a_version_of_torch_that_is_too_old_leaves_the_device_absent() -> None:
    finished = run_forked(
        """
        import torch
        torch.__version__ = torch.torch_version.TorchVersion("2.6.0")
        torch._import_device_backends()
        print(torch._C._get_privateuse1_backend_name())
        """,
        **WITHOUT_AUTOLOAD,
    )
    assert finished.lines() == ["privateuseone"]
    assert finished.stderr.count("NpuWarning") == 1
    for part in ("2.6.0", "2.11 to 2.15"):
        assert part in finished.stderr


def test_a_version_of_torch_that_is_too_new_warns_and_goes_on() -> None:
    finished = run_forked(
        """
        import torch
        torch.__version__ = torch.torch_version.TorchVersion("2.99.0")
        torch._import_device_backends()
        print(torch._C._get_privateuse1_backend_name())
        """,
        **WITHOUT_AUTOLOAD,
    )
    assert finished.lines() == ["npu"]
    assert finished.stderr.count("NpuWarning") == 1
    assert "2.99.0" in finished.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    "first", ["inductor_npu", "inductor_npu.config", "inductor_npu.device.build", "inductor_npu.errors"]
)
def test_importing_ours_before_torch_comes_to_the_same(first: str) -> None:
    finished = run_python(f"import {first}, torch; print(torch.ones(2, device='npu').device)")
    assert finished.lines() == ["npu:0"]
    assert finished.stderr == ""


@pytest.mark.parametrize("version", ["3.1.0", "3.99.0"])
def test_a_version_of_triton_outside_the_tested_range_warns_and_goes_on(version: str) -> None:
    finished = run_forked(
        f"""
        import importlib.metadata
        installed = importlib.metadata.version
        importlib.metadata.version = lambda name: {version!r} if "triton" in name else installed(name)
        import torch
        torch._import_device_backends()
        print(torch.ones(2, device="npu").device)
        """,
        **WITHOUT_AUTOLOAD,
    )
    assert finished.lines() == ["npu:0"]
    assert finished.stderr.count("NpuWarning") == 1
    assert f"triton {version} is outside the tested range 3.6 to 3.9 (and Ascend's 3.2)" in finished.stderr
