"""Touches of private state of torch and Triton: counted, each with its reason, each still needed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from inductor_npu.errors import MovedSymbolError
from inductor_npu.setup import compat
from tests import signatures
from tests.processes import run_forked
from tests.torch_features import before_torch

MOST_PATCHES = 10
MOST_IN_FORCE = 8  # with the newest torch: the rest is for older ones


EVERY = (*compat.PATCHES, *compat.EXTENSIONS)
UNTIL = [patch for patch in EVERY if patch.until]


def test_number_of_patches_is_bounded() -> None:
    assert len(compat.PATCHES) <= MOST_PATCHES
    assert sum(not patch.until for patch in compat.PATCHES) <= MOST_IN_FORCE


@pytest.mark.parametrize("patch", EVERY, ids=lambda patch: patch.symbol)
def test_every_patch_says_what_why_and_for_which_versions(patch: compat.Patch) -> None:
    assert len(patch.reason) > 40
    assert not patch.until or patch.until.startswith(("torch 2.", "Triton 3."))
    assert patch.symbol.startswith(("torch.", "triton."))
    assert signatures.symbol_value(patch.symbol) is not None


def test_every_patch_is_in_the_table_of_touches() -> None:
    table = Path("docs/development/patches.md").read_text()
    assert re.findall(r"^\| `((?:torch|triton)\.[\w.]+)` \|", table, re.MULTILINE) == [patch.symbol for patch in EVERY]


def _without_our_package(expression: str) -> str:
    code, imported = f"import torch\n{expression}", "torch,torch._inductor.compile_fx"
    return run_forked(code, imported=imported, TORCH_DEVICE_BACKEND_AUTOLOAD="0").lines()[-1]


# C++ is generated for whatever vectors there may be, and not compiled: what is only text returns no results.
KERNELS_OF = """
import contextlib, re
from torch._inductor.utils import get_code
torch._inductor.config.cpp.vec_isa_ok = True
torch._inductor.config.force_disable_caches = True  # what is not compiled is nothing to be found again

def kernels_of(function, *inputs):
    def write():
        with contextlib.suppress(TypeError, AssertionError):
            torch.compile(function)(*inputs)

    kernels = re.findall(r"r?'''(.*?)'''", "".join(get_code(write)), re.DOTALL)
    assert kernels
    return kernels

"""


def test_what_does_not_fit_is_named() -> None:
    def apply() -> None:
        from torch._inductor import utils

        utils.no_such_function  # noqa: B018

    patch = compat.Patch(symbol="torch._inductor.utils.f", reason="it is slow.", when="torch._inductor", apply=apply)
    with pytest.raises(MovedSymbolError, match=r"torch\._inductor\.utils\.f of this torch .* it is slow\."):
        patch.install()


@pytest.mark.slow
def test_patches_are_made_until_torch_does_without() -> None:
    """Each is asked of the module that it would change, in a process where nothing is changed."""
    source = (
        "import importlib\nfrom inductor_npu.setup import compat\n"
        "every = (*compat.PATCHES, *compat.EXTENSIONS)\n"
        "patches = [patch for patch in every if patch.until and 'GPU_TYPES' not in patch.symbol]\n"
        "for patch in patches: importlib.import_module(patch.when)\n"
        "print(*[patch.symbol for patch in patches if patch.is_needed()])"
    )
    asked = [patch for patch in UNTIL if "GPU_TYPES" not in patch.symbol]  # asks for a device that is not there
    needed = [
        patch.symbol
        for patch in asked
        if patch.since.removeprefix("torch ") <= torch.__version__ < patch.until.removeprefix("torch ")
    ]
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


def test_donated_buffers_are_still_found_by_the_storages_of_fake_tensors() -> None:
    """When donation is decided by the buffers of the compiled graph, codegen/wrapper/donated_results.py can go."""
    source = "import inspect\nfrom torch._functorch._aot_autograd import graph_compile as g"
    body = "inspect.getsource(g.collect_fw_donated_buffer_idxs)"
    assert _without_our_package(f"{source}\nprint('StorageWeakRef' in {body})") == "True"


@pytest.mark.slow
@before_torch("2.15", "counts positions in the order of the tensor")
def test_positions_are_still_those_in_the_order_of_memory() -> None:
    """When Inductor leaves the loops of an argmax in their order, lowering/argmax_positions.py can go."""
    source = (
        "x = torch.arange(12.0).view(4, 3).t()\n"
        "loops, others = (kernels_of(lambda x: (x - 5).abs().argmin(), x) for x in (x, x.contiguous()))\n"
        "print(loops == others)"
    )
    assert _without_our_package(KERNELS_OF + source) == "True"


@pytest.mark.parametrize("expression", ["-number", "FloorDiv(number, 2)", "ModularIndexing(number, 1, 4)"])
def test_what_is_made_of_protected_numbers_still_has_no_value(expression: str) -> None:
    """When a number in an Identity is that number, the patch can go."""
    source = "import sympy; from torch.utils._sympy.functions import *; number = Identity(sympy.Integer(-8))"
    assert _without_our_package(f"{source}; print(({expression}).is_comparable)") == "False"


@pytest.mark.slow
@before_torch("2.15", "looks at the values' memory")
def test_values_that_are_the_tensor_itself_are_still_written_in_place() -> None:
    """When Inductor writes indexed values in place only where they lie elsewhere, overlapping_writes can go."""
    source = (
        "def f(x, order): rows = x[order]; return rows.index_put((order,), rows)\n"
        "(kernel,) = kernels_of(f, torch.ones(5, 2), torch.arange(5))\n"
        "print(re.findall(r'float[*] (out_ptr[0-9])', kernel))"
    )
    assert _without_our_package(KERNELS_OF + source) == "['out_ptr0']"


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


def test_layouts_of_convolutions_are_still_decided_by_the_speed_of_gpus() -> None:
    """When a backend is asked whether convolutions should get their operands channels last, the patch can go."""
    source = "import inspect\nfrom torch._inductor.graph import GraphLowering"
    body = "inspect.getsource(GraphLowering.decide_layout_opt)"
    assert (
        _without_our_package(f"{source}\nprint('DEFAULT_MULTIPLIER' in {body}, 'backend_for' in {body})")
        == "True False"
    )


def test_remainders_of_strides_still_have_no_bounds() -> None:
    """When no supported version compares strides by remainders, or those have bounds, the patch can go."""
    source = (
        "import sympy; from inductor_npu.support import upstream\n"
        "from torch.utils._sympy.value_ranges import ValueRangeError, ValueRanges, bound_sympy, int_oo\n"
        "h, w, c = sizes = sympy.symbols('h w c', integer=True, positive=True)\n"
        "remainder = (h + 4) * (w + 4) % (c * (h + 4) * (w + 4))\n"
        "asked_otherwise = not upstream.strides_are_compared_by_remainders()\n"
        "try: print(asked_otherwise or bound_sympy(remainder, {size: ValueRanges(2, int_oo) for size in sizes}))\n"
        "except ValueRangeError: print(True)"
    )
    assert _without_our_package(source) == "True"


def test_a_group_without_a_name_still_has_a_default_backend_that_is_not_there() -> None:
    """When the default of init_process_group() is the backend that it made, the patch can go."""
    source = (
        "import torch.distributed as dist\n"
        "dist.Backend.register_backend('other', lambda store, *_: dist.ProcessGroupGloo(store, 0, 1))\n"
        "dist.Backend.default_device_backend_map['cpu'] = 'other'\n"
        "dist.init_process_group(store=dist.HashStore(), rank=0, world_size=1)\n"
        "print(dist.get_backend())"
    )
    assert _without_our_package(source).endswith("undefined")


def test_graphs_are_still_compiled_by_everybody_who_needs_them() -> None:
    """When Inductor holds a lock from looking for a graph until it is kept, the patch can go."""
    source = "import inspect, re\nfrom torch._inductor import compile_fx"
    body = "inspect.getsource(compile_fx._compile_fx_inner)"
    steps = f"re.findall('FxGraphCache.(load_with_key|_save_graph)', {body})"
    assert _without_our_package(f"{source}\nprint(*{steps}, 'lock' in {body})") == "load_with_key _save_graph False"


# Whether a function is named that calls an operator while a model is traced: those of torch's own layers are in files.
NAMED = (
    "import torch\nfrom torch._dynamo import funcname_cache\n"
    "torch.compile(torch.nn.Linear(2, 2), backend='eager')(torch.ones(2))\n"
    "print(any(funcname_cache.cache.values()))"
)


# Of earlier Pythons' instructions Dynamo does not know where in a line they stand, and it writes no such log.
has_positions = pytest.mark.skipif(sys.version_info < (3, 11), reason="Dynamo names functions from Python 3.11 on")


@has_positions
def test_functions_are_still_named_for_logs_that_are_off() -> None:
    """When Dynamo names the function that calls an operator only in the lines of a log, the patch can go."""
    assert _without_our_package(NAMED) == "True"


@pytest.mark.slow
@has_positions
def test_functions_are_named_for_logs_that_are_on() -> None:
    assert run_forked(NAMED).lines()[-1] == "False"
    finished = run_forked(NAMED, TORCH_LOGS="trace_call")
    assert finished.lines()[-1] == "True"
    assert "TRACE FX call" in finished.stderr


@pytest.mark.slow
def test_a_matrix_product_is_compiled_without_a_warning() -> None:
    source = "f = torch.compile(lambda a: a @ a); f(torch.ones(4, 4, device='npu'))"
    finished = run_forked(f"import torch\n{source}")
    assert finished.returncode == 0
    assert "SMs" not in finished.stderr


def test_devices_of_flex_attention_are_still_a_fixed_set() -> None:
    """When FlexAttention asks the registered devices, the extension can go."""
    source = "from torch.nn.attention.flex_attention import _validate_device as check"
    sets = "[each for each in check.__code__.co_consts if isinstance(each, frozenset)]"
    assert _without_our_package(f"{source}\nprint(*['npu' in each for each in {sets}])") == "False"


def test_graphs_are_still_captured_on_cuda_alone() -> None:
    """When Inductor asks a policy of capture whatever the device, the patch can go."""
    source = (
        "from torch._inductor.cudagraph_utils import check_multiple_devices_or_any_cpu_nodes as check\n"
        "print(check({torch.device('xpu'): None}) is None, check({torch.device('cuda'): None}) is None)"
    )
    assert _without_our_package(source) == "False True"


def test_random_states_are_still_kept_for_a_table_of_devices() -> None:
    """When torch asks any device's module for the state that an operator starts from, the patch can go."""
    source = "import torch._prims.rng_prims as r\ntry:\n    r.run_and_save_rng_state(torch.ops.aten.rand.default, [4],"
    assert _without_our_package(f"{source} device='meta')\nexcept AssertionError as error:\n    print(error)") == (
        "Backend not supported for meta"
    )
