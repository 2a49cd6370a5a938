"""Kernels through Ascend's compiler: what is accepted, what a refusal says, that a broken kernel costs no other."""

from __future__ import annotations

import json
import math
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from inductor_npu.ascend import compilation, workers
from inductor_npu.ascend.compilation import Compilation, Stage, compile_kernels
from inductor_npu.ascend.environment import AscendEnvironment
from inductor_npu.ascend.kernel import KernelSource
from inductor_npu.ascend.toolchain import bishengir
from inductor_npu.ascend.toolchain.families import family_of
from inductor_npu.ascend.toolchain.options import switches
from inductor_npu.errors import BrokenAscendEnvironmentError, UnknownAscendTargetError
from tests.ascend import kernels
from tests.ascend.kernels import ADD, CRASH, MISSING_FUNCTION, SOFTMAX, TOO_LARGE, kernel

TARGET = "Ascend910B3"
pytestmark = pytest.mark.ascend


@pytest.fixture(scope="module")
def compile_one(ascend: AscendEnvironment) -> Iterator[Callable[..., Compilation]]:
    """Compiles one kernel, without the cache, in a process that the tests of this file share."""
    pool = workers.WorkerPool(ascend, 1)
    yield lambda source, target=TARGET: compilation._compile(pool, source, target)
    pool.close()


@pytest.fixture
def no_worker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fails the test if it compiles anything."""

    def start(self: object) -> None:
        raise AssertionError("a compiler process was started")

    monkeypatch.setattr(workers._Worker, "_start", start)


def elementwise(expression: str, dtype: str = "*fp32") -> KernelSource:
    """y = expression of x, on one tile."""
    return kernel(
        f"""
        def elementwise(x, y, TILE: tl.constexpr):
            i = tl.arange(0, TILE)
            x = tl.load(x + i)
            tl.store(y + i, {expression})
        """,
        {"x": dtype, "y": dtype},
        {"TILE": 1024},
    )


def test_every_stage_is_there_for_every_kernel_that_is_accepted(own_cache: Path) -> None:
    done = compile_kernels(kernels.ACCEPTED, TARGET)
    for source, result in zip(kernels.ACCEPTED, done):
        assert (result.key, result.target, result.failed, result.message) == (source.key, TARGET, None, ""), source.name
        assert f"tt.func public @{source.name}" in result.ttir
        assert f"func.func @{source.name}" in result.linalg
        assert f"func.func @{source.name}" in result.hivm and "hivm.module_core_type" in result.hivm
        assert 0 < result.seconds < 60


def test_the_result_names_no_folder_of_this_machine(compile_one) -> None:
    result = compile_one(ADD)
    for text in (result.ttir, result.linalg, result.hivm):
        assert not re.search(r'"/', text)
    assert 'loc("kernel.py":' in result.ttir


def test_the_result_names_no_folder_of_an_environment_behind_a_link(
    ascend: AscendEnvironment, compile_one, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(ascend.programs.resolve().parent)
    (tmp_path / "kernel.mlir").write_text(compile_one(ADD).linalg)
    hivm = bishengir.BishengIR(tmp_path / "link" / "bin", tmp_path).compile(tmp_path, TARGET)
    assert not re.search(r'"/', hivm)


# The 950's compiler is another program, which makes another kind of code.
@pytest.mark.parametrize("target", ["Ascend910B4", "Ascend910_9382", "Ascend950PR_9589", "Ascend910_9589"])
def test_other_chips(target: str, compile_one) -> None:
    assert compile_one(SOFTMAX, target).failed is None


def test_an_unknown_chip_is_told_the_known_ones(own_cache: Path, no_worker: None) -> None:
    with pytest.raises(UnknownAscendTargetError, match="Ascend910B3"):
        compile_kernels([ADD], "Ascend999")


def test_no_kernels_need_no_process(own_cache: Path, no_worker: None) -> None:
    assert compile_kernels([], TARGET) == []


# What a refusal says.


def test_too_large_for_the_unified_buffer(compile_one) -> None:
    result = compile_one(TOO_LARGE)
    assert (result.failed, result.crashed, result.required_bits) == (Stage.BISHENGIR, False, 4194304)
    assert result.message == "ub overflow, requires 4194304 bits while 1572864 bits available"
    assert result.linalg is not None and result.hivm is None


def test_a_function_that_ascends_libdevice_lacks_is_named_with_its_line(compile_one) -> None:
    result = compile_one(MISSING_FUNCTION)
    assert (result.failed, result.crashed) == (Stage.FRONT_END, False)
    assert result.message == (
        "kernel.py:9: tl.store(y + i, libdevice.fmod(tl.load(x + i), 2.0)): Ascend's libdevice has no function 'fmod'"
    )


@pytest.mark.parametrize("name", ["atan2", "div_rz", "nonesuch"])
def test_every_such_function(name: str, compile_one) -> None:
    result = compile_one(elementwise(f"libdevice.{name}(x, x)"))
    assert result.failed is Stage.FRONT_END and result.message.endswith(f"Ascend's libdevice has no function '{name}'")


def test_the_line_is_that_of_the_helper_that_is_wrong(compile_one) -> None:
    source = elementwise("helper(x)")
    helper = "@triton.jit\ndef helper(x):\n    return libdevice.fmod(x, 2.0)\n\n\n"
    text = source.text.replace("@triton.jit\n", helper + "@triton.jit\n")
    result = compile_one(replace(source, text=text))
    assert result.message == "kernel.py:8: return libdevice.fmod(x, 2.0): Ascend's libdevice has no function 'fmod'"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace("import triton\n", "import triton\nimport absent_module\n"), "absent_module"),
        (lambda text: text.replace("def elementwise", "def other"), "no @triton.jit function 'elementwise'"),
        (lambda text: text.replace("tl.load(x", "tl.lode(x"), "lode"),
        (lambda text: text.replace("(x, y,", "(x, z, y,"), "arguments z of elementwise"),
        (lambda text: text + "    tl.static_assert(TILE > 5000, 'the tile is small')\n", "the tile is small"),
    ],
)
def test_a_kernel_that_does_not_load_is_refused(change, message: str, compile_one) -> None:
    source = elementwise("x")
    result = compile_one(replace(source, text=change(source.text)))
    assert (result.failed, result.crashed) == (Stage.FRONT_END, False)
    assert message in result.message


def test_fp64_is_refused(compile_one) -> None:
    result = compile_one(elementwise("x + 1", "*fp64"))
    assert result.failed is not None and result.hivm is None and "element type" in result.message


# What a kernel may be made of.


@pytest.mark.parametrize(
    "expression",
    [
        "libdevice.tanh(x)",
        "libdevice.isnan(x).to(tl.float32)",
        "libdevice.pow(x, x)",
        "libdevice.trunc(x)",
        "triton_helpers.maximum(x, 0.0)",
        "tl_math.abs(x)",
        "tl.where(x > 0, x, float('-inf'))",
    ],
)
def test_what_inductors_kernels_call(expression: str, compile_one) -> None:
    source = elementwise(expression)
    imports = "from torch._inductor.runtime import triton_helpers\n"
    imports += "from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math\n"
    text = source.text.replace("from triton.language.extra import libdevice\n", imports)
    result = compile_one(replace(source, text=text))
    assert (result.failed, result.message) == (None, "")


def test_libdevice_imported_by_function(compile_one) -> None:
    source = elementwise("tanh(x)")
    imports = "from triton.language.extra.libdevice import tanh"
    text = source.text.replace("from triton.language.extra import libdevice", imports)
    assert compile_one(replace(source, text=text)).message == ""


def test_values_of_constants_reach_the_kernel(compile_one) -> None:
    source = kernel(
        """
        def constants(x, absent, y, n, low, KIND: tl.constexpr, FLAG: tl.constexpr, TILE: tl.constexpr):
            i = tl.arange(0, TILE)
            v = tl.load(x + i, mask=i < n, other=low)
            if FLAG and absent is None:
                v = v.to(KIND)
            tl.store(y + i, v)
        """,
        {"x": "*fp32", "y": "*fp16", "n": "i32"},
        {"absent": None, "low": -math.inf, "KIND": "tl.float16", "FLAG": True, "TILE": 1024},
    )
    result = compile_one(source)
    assert result.message == "" and "0xFF800000" in result.ttir and "xf16>" in result.ttir


def test_arguments_known_to_be_multiples_of_16_are_said_to_be(compile_one) -> None:
    plain, divisible = compile_one(ADD), compile_one(replace(ADD, divisible=("a", "n")))
    assert "tt.divisibility = 16" not in plain.ttir
    assert divisible.ttir.count("tt.divisibility = 16") == 2


# Crashes.


def test_a_crash_costs_only_its_kernel_and_is_saved(own_cache: Path) -> None:
    result, other = compile_kernels([CRASH, ADD], TARGET, jobs=1)
    assert other.failed is None
    assert (result.failed, result.crashed) == (Stage.ADAPTER, True)
    assert result.message.startswith("triton-adapter-opt crashed on SIGABRT: strides must not be zero (assertion at ")
    folder = Path(result.reproduction)
    assert own_cache in folder.parents
    assert (folder / "kernel.py").read_text() == CRASH.text
    assert "tt.func public @crash" in (folder / "kernel.ttir").read_text()
    assert (folder / "command.txt").read_text().startswith("triton-adapter-opt kernel.ttir ")


def test_the_saved_command_crashes_again(own_cache: Path, ascend: AscendEnvironment) -> None:
    folder = Path(compile_kernels([CRASH], TARGET)[0].reproduction)
    command = (folder / "command.txt").read_text()
    done = subprocess.run(
        f"{ascend.adapter.parent}/{command}", shell=True, cwd=folder, capture_output=True, check=False
    )
    assert done.returncode != 0 and b"strides must not be zero" in done.stderr


def dying(how: str) -> KernelSource:
    """A kernel at whose loading the process that compiles it ends, as it does when Triton's passes crash."""
    source = elementwise("x + 3")
    return replace(source, text=f"{source.text}\n\nimport os, signal, time\n{how}\n")


def test_a_worker_that_dies_costs_only_its_kernel(own_cache: Path) -> None:
    segfault = dying("os.kill(os.getpid(), signal.SIGSEGV)")
    first, result, last = compile_kernels([ADD, segfault, SOFTMAX], TARGET, jobs=1)
    assert first.failed is None and last.failed is None
    assert (result.failed, result.crashed) == (Stage.FRONT_END, True)
    assert result.message == "Ascend's front end crashed on SIGSEGV"
    folder = Path(result.reproduction)
    assert json.loads((folder / "request.json").read_text())["target"] == TARGET
    assert "toolchain.worker" in (folder / "command.txt").read_text()


def test_a_full_disk_is_no_verdict_on_the_kernel(own_cache: Path) -> None:
    full = "import pathlib\nroot = pathlib.Path(__file__).parent\n(root / 'kernel.ttir').mkdir()"
    (result,) = compile_kernels([dying(full)], TARGET)  # a file that cannot be written
    assert (result.failed, result.crashed) == (Stage.FRONT_END, True)
    assert "front end crashed with status 1: IsADirectoryError" in result.message


def test_a_kernel_that_does_not_end_is_given_up(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compilation, "SECONDS_A_KERNEL", 1.0)
    (result,) = compile_kernels([dying("time.sleep(60)")], TARGET)
    assert (result.failed, result.crashed) == (Stage.FRONT_END, True)
    assert result.message == "the compiler did not end within 1 s"


def test_a_kernel_that_uses_up_its_processor_time_is_kept_as_a_verdict(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch, request
) -> None:
    monkeypatch.setattr(compilation, "PROCESSOR_SECONDS", 3)
    busy = dying("while True: pass")
    result, other = compile_kernels([busy, ADD], TARGET, jobs=1)
    assert (result.failed, result.crashed) == (Stage.FRONT_END, True)
    assert result.message == "Ascend's front end did not end within its processor time"
    assert other.message == ""
    request.getfixturevalue("no_worker")
    assert compile_kernels([busy], TARGET) == [result]


def test_what_a_kernel_prints_disturbs_nothing(compile_one) -> None:
    source = elementwise("x + 4")
    assert compile_one(replace(source, text=f"print('{{')\n{source.text}")).failed is None


def test_a_compiler_that_does_not_start_is_a_broken_environment(
    own_cache: Path, ascend: AscendEnvironment, tmp_path: Path
) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho libtriton.so: cannot open >&2\nexit 1\n")
    python.chmod(0o755)
    with pytest.raises(BrokenAscendEnvironmentError, match=r"does not start: libtriton\.so: cannot open"):
        compile_kernels([ADD], TARGET, environment=replace(ascend, python=python))


# The cache, and each distinct kernel once.


def test_a_second_time_nothing_is_compiled(own_cache: Path, monkeypatch: pytest.MonkeyPatch, request) -> None:
    sources = [ADD, TOO_LARGE]
    first = compile_kernels(sources, TARGET)
    request.getfixturevalue("no_worker")
    assert compile_kernels(sources, TARGET) == first  # a refusal is kept too


def test_a_failed_assertion_is_kept_as_long_as_its_reproduction(own_cache: Path, request) -> None:
    (first,) = compile_kernels([CRASH], TARGET)
    request.getfixturevalue("no_worker")
    assert compile_kernels([CRASH], TARGET) == [first]
    shutil.rmtree(first.reproduction)
    with pytest.raises(AssertionError, match="was started"):
        compile_kernels([CRASH], TARGET)


def test_a_crash_that_may_be_the_machines_doing_is_compiled_again(own_cache: Path, request) -> None:
    segfault = dying("os.kill(os.getpid(), signal.SIGSEGV)")
    compile_kernels([segfault], TARGET)
    request.getfixturevalue("no_worker")
    with pytest.raises(AssertionError, match="was started"):
        compile_kernels([segfault], TARGET)


@pytest.mark.parametrize(
    "change",
    [
        {"source": replace(ADD, divisible=("n",))},
        {"source": replace(ADD, constants={"TILE": 1024})},
        {"target": "Ascend910B4"},
        {"versions": {"triton-ascend": "3.2.1"}},
    ],
)
def test_what_decides_the_result_is_in_the_key(change, own_cache: Path, ascend: AscendEnvironment, request) -> None:
    compile_kernels([ADD], TARGET, environment=ascend)
    request.getfixturevalue("no_worker")
    environment = replace(ascend, versions={**ascend.versions, **change.get("versions", {})})
    with pytest.raises(AssertionError, match="was started"):
        compile_kernels([change.get("source", ADD)], change.get("target", TARGET), environment=environment)


def test_a_place_where_no_program_can_run_is_named(own_cache: Path, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(bishengir, "STAND_IN_FOR_HIVMC", "#!/no/such/interpreter\n")
    (tmp_path / "worker").mkdir()
    with pytest.raises(RuntimeError, match=f"no program can be run in {tmp_path}; set TMPDIR"):
        bishengir.BishengIR(tmp_path, tmp_path / "worker")


def test_equal_kernels_are_compiled_once_and_reported_each(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    ask = workers.WorkerPool.ask
    monkeypatch.setattr(
        workers.WorkerPool, "ask", lambda *given: asked.append(given[1]["kernel"]["name"]) or ask(*given)
    )
    reported: dict[int, Compilation] = {}
    results = compile_kernels([ADD, SOFTMAX, ADD, ADD], TARGET, on_done=reported.__setitem__)
    assert sorted(asked) == ["add", "softmax"]
    assert names(results) == ["add", "softmax", "add", "add"]
    assert [reported[index] for index in range(4)] == results


def names(results: Sequence[Compilation]) -> list[str]:
    return [result.hivm.partition("_infer_task_type")[0].rpartition("@")[2] for result in results]


def test_an_interrupted_run_leaves_no_process(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen] = []

    def stop(index: int, result: Compilation) -> None:
        raise KeyboardInterrupt

    start = workers._Worker._start

    def record(self: workers._Worker) -> subprocess.Popen:
        started.append(start(self))
        return started[-1]

    monkeypatch.setattr(workers._Worker, "_start", record)
    with pytest.raises(KeyboardInterrupt):
        compile_kernels(kernels.ACCEPTED, TARGET, jobs=1, on_done=stop)
    assert started and all(process.returncode is not None for process in started)


MIXED = kernel(
    """
    def mixed(a, b, y, n, B: tl.constexpr):
        i = tl.arange(0, B)
        for t in range(tl.program_id(0), n, tl.num_programs(0)):
            at = t * B * B + i[:, None] * B + i[None, :]
            c = tl.dot(tl.load(a + at), tl.load(b + at))
            tl.store(y + at, tl.exp(c))
    """,
    {"a": "*fp16", "b": "*fp16", "y": "*fp32", "n": "i32"},
    {"B": 64},
)


@pytest.mark.parametrize(("options", "depth"), [({}, 4), ({"set_workspace_multibuffer": 2}, 2)])
def test_options_of_a_kernel_reach_the_compiler(options: dict[str, int], depth: int, compile_one) -> None:
    hivm = compile_one(replace(MIXED, options=options)).hivm
    assert re.search(rf"_infer_workspace_shape_function.*\n.*constant {depth * 64 * 64 * 4} ", hivm)


def test_a_kernels_switch_takes_the_place_of_its_familys() -> None:
    given = switches(TARGET, {"multibuffer": False, "num_warps": 4, "unit_flag": None})
    assert [flag for flag in given if "multi-buffer" in flag] == ["--enable-auto-multi-buffer=False"]
    assert set(given) - set(family_of(TARGET).flags) == {"--enable-auto-multi-buffer=False"}
