"""Touches of private state of torch and Triton: counted, each with its reason, each still needed."""

from __future__ import annotations

import inspect

import pytest
import torch

from inductor_npu import compat
from inductor_npu.errors import MovedSymbolError
from tests import signatures
from tests.processes import run_python
from tests.torch_features import before_torch

MOST_PATCHES = 18
MOST_IN_FORCE = 12  # with the newest torch: the rest is for older ones


UNTIL = [patch for patch in compat.PATCHES if patch.until]


def test_number_of_patches_is_bounded() -> None:
    assert len(compat.PATCHES) <= MOST_PATCHES
    assert len(compat.PATCHES) - len(UNTIL) <= MOST_IN_FORCE


@pytest.mark.parametrize("patch", compat.PATCHES, ids=lambda patch: patch.symbol)
def test_every_patch_says_what_why_and_for_which_versions(patch: compat.Patch) -> None:
    assert len(patch.reason) > 40
    assert not patch.until or patch.until.startswith(("torch 2.", "Triton 3."))
    assert patch.symbol.startswith(("torch.", "triton."))
    assert signatures.symbol_value(patch.symbol) is not None


def _without_our_package(expression: str) -> str:
    return run_python(f"import torch\n{expression}", TORCH_DEVICE_BACKEND_AUTOLOAD="0").lines()[-1]


def test_what_does_not_fit_is_named() -> None:
    def apply() -> None:
        from torch._inductor import utils

        utils.no_such_function  # noqa: B018

    patch = compat.Patch(symbol="torch._inductor.utils.f", reason="it is slow.", when="torch._inductor", apply=apply)
    with pytest.raises(MovedSymbolError, match=r"torch\._inductor\.utils\.f of this torch .* it is slow\."):
        patch.install()


def test_patches_are_made_until_torch_does_without() -> None:
    """Each is asked of the module that it would change, in a process where nothing is changed."""
    source = (
        "import importlib\nfrom inductor_npu import compat\n"
        "patches = [patch for patch in compat.PATCHES if patch.until and 'GPU_TYPES' not in patch.symbol]\n"
        "for patch in patches: importlib.import_module(patch.when)\n"
        "print(*[patch.symbol for patch in patches if patch.is_needed()])"
    )
    asked = [patch for patch in UNTIL if "GPU_TYPES" not in patch.symbol]  # asks for a device that is not there
    needed = [patch.symbol for patch in asked if torch.__version__ < patch.until.removeprefix("torch ")]
    assert _without_our_package(source).split() == needed


@before_torch("2.14", "asks the registered devices")
def test_has_triton_still_ignores_devices_it_does_not_know() -> None:
    """When torch asks registered devices instead of its own table, the patch can go."""
    source = "import inspect, torch.utils._triton as t; print('npu' in inspect.getsource(t.has_triton))"
    assert _without_our_package(source) == "False"


@before_torch("2.15", "asks the registered devices")
def test_gpu_types_are_still_a_fixed_list() -> None:
    """When torch fills this list from registered devices, the patch can go."""
    assert _without_our_package("from torch._inductor.utils import GPU_TYPES; print('npu' in GPU_TYPES)") == "False"


def test_matrix_products_still_ask_for_the_size_of_a_gpu() -> None:
    """When torch asks the backend for its templates before it counts multiprocessors, the patch can go."""
    source = "import inspect, torch._inductor.utils as u; print('is_big_gpu' in inspect.getsource(u))"
    assert _without_our_package(source) == "True"


def test_donated_buffers_are_still_found_by_the_storages_of_fake_tensors() -> None:
    """When rewrites of a graph keep views in the storage of what they view, the patch can go."""
    source = "import inspect\nfrom torch._functorch._aot_autograd import graph_compile as g"
    body = "inspect.getsource(g.collect_fw_donated_buffer_idxs)"
    assert _without_our_package(f"{source}\nprint('StorageWeakRef' in {body})") == "True"


@before_torch("2.15", "counts positions in the order of the tensor")
def test_positions_are_still_those_in_the_order_of_memory() -> None:
    """When Inductor leaves the loops of an argmax in their order, the patch can go."""
    source = "import torch; x = torch.arange(12.0).view(4, 3).t(); f = lambda x: (x - 5).abs().argmin()"
    assert _without_our_package(f"{source}; print(int(f(x)) == int(torch.compile(f)(x)))") == "False"


@pytest.mark.parametrize("expression", ["-number", "FloorDiv(number, 2)", "ModularIndexing(number, 1, 4)"])
def test_what_is_made_of_protected_numbers_still_has_no_value(expression: str) -> None:
    """When a number in an Identity is that number, the patch can go."""
    source = "import sympy; from torch.utils._sympy.functions import *; number = Identity(sympy.Integer(-8))"
    assert _without_our_package(f"{source}; print(({expression}).is_comparable)") == "False"


@before_torch("2.15", "looks at the values' memory")
def test_values_that_are_the_tensor_itself_are_still_written_in_place() -> None:
    """When Inductor writes indexed values in place only where they lie elsewhere, the patch can go."""
    source = "import torch; x, order = torch.ones(5, 2).cumsum(0), torch.tensor([1, 2, 3, 4, 0])\n"
    body = "def f(x, order): rows = x[order]; return rows.index_put((order,), rows)\n"
    assert _without_our_package(f"{source}{body}print(f(x, order).equal(torch.compile(f)(x, order)))") == "False"


def test_sizes_of_a_base_still_have_no_symbols_on_record() -> None:
    """When Dynamo hands the symbols of a tensor to the backend whatever it named them last, the patch can go."""
    source = (
        "from torch._dynamo.backends.registry import lookup_backend\n"
        "def backend(graph, inputs):\n"
        "    known = torch._guards.TracingContext.get().fake_mode.shape_env.var_to_range\n"
        "    before = len(known)\n"
        "    try: return lookup_backend('aot_eager')(graph, inputs)\n"
        "    finally: print(len(known) > before)\n"
        "x = torch.ones(4, 5); torch._dynamo.maybe_mark_dynamic(x, (0, 1))\n"
        "f = torch.compile(lambda x, y: (x.flatten().topk(7), y + 1), dynamic=True, backend=backend)\n"
        "try: f(x, x.view(4, 5))\n"
        "except (AssertionError, IndexError) as error: assert 'source' in str(error) or 'list index' in str(error)"
    )
    assert _without_our_package(source) == "True"


@pytest.mark.skipif(torch.__version__ < (2, 13), reason="earlier versions do not give a loop another's shape")
def test_loops_are_still_reshaped_before_a_backend_is_asked() -> None:
    """When a backend is asked whether a pair of loops may become one before one of them is traced anew, the patch can
    go.
    """
    source = "import inspect\nfrom torch._inductor.scheduler import Scheduler"
    body = "inspect.getsource(Scheduler.shared_data_after_reordering_loop)"
    assert _without_our_package(f"{source}\nprint('reindex' in {body}, 'backend' in {body})") == "True False"


def test_layouts_of_convolutions_are_still_decided_by_the_speed_of_gpus() -> None:
    """When a backend is asked whether convolutions should get their operands channels last, the patch can go."""
    source = "import inspect\nfrom torch._inductor.graph import GraphLowering"
    body = "inspect.getsource(GraphLowering.decide_layout_opt)"
    assert (
        _without_our_package(f"{source}\nprint('DEFAULT_MULTIPLIER' in {body}, 'backend_for' in {body})")
        == "True False"
    )


NAMED = (
    "import torch\nfrom torch._dynamo import funcname_cache\n"
    "torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\nprint(len(funcname_cache.cache) > 0)"
)


def test_functions_are_still_named_for_logs_that_are_off() -> None:
    """When Dynamo names the function that calls an operator only in the lines of a log, the patch can go."""
    assert _without_our_package(NAMED) == "True"


def test_functions_are_named_for_logs_that_are_on() -> None:
    assert run_python(NAMED).lines()[-1] == "False"
    finished = run_python(NAMED, TORCH_LOGS="trace_call")
    assert finished.lines()[-1] == "True"
    assert "TRACE FX call" in finished.stderr


def test_triton_still_reads_its_library_in_each_process() -> None:
    """When Triton knows its own version without that, the patch can go."""
    from triton.runtime import cache

    if not hasattr(cache, "triton_key"):
        pytest.skip("this Triton has the function elsewhere")
    assert "libtriton" in inspect.getsource(cache.triton_key)


def test_triton_still_visits_a_loop_twice() -> None:
    """When Triton finds the variables that a loop hands on in the loop's text, the patch can go."""
    from triton.compiler.code_generator import CodeGenerator

    if not hasattr(CodeGenerator, "_find_carries"):
        pytest.skip("this Triton's visit of a loop is one function")
    assert "visit_compound_statement" in inspect.getsource(CodeGenerator._find_carries.__wrapped__)


def test_choices_are_still_those_of_all_devices() -> None:
    """When a backend can bring choices of its own, the patch can go."""
    source = "import inspect, torch._inductor.virtualized as v"
    assert _without_our_package(f"{source}\nprint('device' in inspect.getsource(v._choices_default))") == "False"


@before_torch("2.14", "asks the backend")
def test_scans_are_still_refused_by_a_table_of_devices() -> None:
    """When torch asks the backend whether it generates scans, the patch can go."""
    source = (
        "from torch._higher_order_ops.associative_scan import associative_scan\n"
        "try: torch.compile(associative_scan, backend='eager')(torch.add, torch.ones(3, device='meta'), 0)\n"
        "except Exception as error: print('need to be on CUDA or XPU' in str(error))"
    )
    assert _without_our_package(source) == "True"


def test_a_matrix_product_is_compiled_without_a_warning() -> None:
    source = "f = torch.compile(lambda a: a @ a); f(torch.ones(4, 4, device='npu'))"
    finished = run_python(f"import torch\n{source}")
    assert finished.returncode == 0
    assert "SMs" not in finished.stderr


def test_states_of_generators_are_still_kept_for_devices_of_a_table() -> None:
    """When torch keeps the state of any device's generator for an operator that is computed again, the patch can go."""
    source = "import inspect\nfrom torch._prims import rng_prims"
    body = "inspect.getsource(rng_prims.register_run_and_save_rng_state_op)"
    assert _without_our_package(f"{source}\nprint('hpu' in {body}, 'get_device_module' in {body})") == "True False"


@before_torch("2.13", "has register_benchmarker")
def test_benchmarker_cannot_be_registered_yet() -> None:
    from torch._inductor.runtime import benchmarking

    assert not hasattr(benchmarking, "register_benchmarker")
