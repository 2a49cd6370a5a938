"""Every touch of torch's and Triton's private state that no official hook covers, in two lists: what is replaced, and
what is extended.

Each entry names the symbol, why it has to be touched, and the versions that need it; `tests/setup/test_compat.py`
counts the entries and fails when one of them is no longer needed. Nothing here imports Dynamo, Inductor or Triton at
module level.
"""

from __future__ import annotations

import functools
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from inductor_npu.errors import MovedSymbolError
from inductor_npu.setup import arrival
from inductor_npu.support import upstream

DEVICE = "npu"


@dataclass(frozen=True)
class Patch:
    """One touch of private state: `apply` makes it, `when` names the module whose import makes it possible (and
    necessary). `since` and `until` name the first version that needs it and the first that does without, where some
    do not; `is_needed` says which kind this one is: it is asked of the module, not of its version.
    """

    symbol: str
    reason: str
    when: str
    apply: Callable[[], None]
    since: str = ""
    until: str = ""
    is_needed: Callable[[], bool] = lambda: True

    def install(self) -> None:
        """Makes the touch, where it is needed. Raises MovedSymbolError, with the symbol, where it does not fit."""
        try:
            if self.is_needed():
                self.apply()
        except (AttributeError, ImportError, LookupError, TypeError) as error:
            raise MovedSymbolError(symbol=self.symbol, reason=error, purpose=self.reason) from error


def _rebind_has_triton() -> None:
    from torch.utils import _triton

    original = _triton.has_triton
    found = False  # once it is there it stays; Dynamo asks for every call that it traces

    @functools.wraps(original)
    def has_triton() -> bool:
        nonlocal found
        found = found or _npu_has_triton()
        return found or original()

    def cache_clear() -> None:
        nonlocal found
        found = False
        original.cache_clear()

    # torch caches the original; whoever clears that cache has to find it here too.
    has_triton.cache_clear = cache_clear  # type: ignore[attr-defined]
    _triton.has_triton = has_triton


def _npu_has_triton() -> bool:
    import torch
    from torch.utils._triton import has_triton_package

    if not has_triton_package():
        return False
    from torch._inductor.config import triton_disable_device_detection

    module = getattr(torch, DEVICE, None)
    return not triton_disable_device_detection and module is not None and module.is_available()


@contextmanager
def _cuda_left_asleep() -> Iterator[None]:
    """Inside, torch.cuda.is_available() asks NVML. By default it starts CUDA, which no process can use then that is
    forked from this one (PyTorch's note "Poison fork in multiprocessing"); importing Inductor alone does not.
    """
    variable = "PYTORCH_NVML_BASED_CUDA_CHECK"
    before = os.environ.get(variable)
    os.environ[variable] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[variable]
        else:
            os.environ[variable] = before


def _add_gpu_type() -> None:
    arrival.once_there(_extend_gpu_types)


def _extend_gpu_types() -> None:
    import torch
    from torch._inductor import utils

    from inductor_npu import providers

    others = list(utils.GPU_TYPES)
    with _cuda_left_asleep():
        if any(getattr(torch, name).is_available() for name in others):
            # get_gpu_type() asserts that there is one GPU type and caches its answer. Where torch has another
            # accelerator it stays the answer, and nothing changes for it; unless npu is that accelerator.
            if providers.current_provider() is providers.CUDA:
                utils.GPU_TYPES[:] = [DEVICE]
                utils.get_gpu_type.cache_clear()
            utils.get_gpu_type()
            utils.GPU_TYPES[:] = [*others, DEVICE]
            return
    utils.GPU_TYPES.append(DEVICE)
    utils.get_gpu_type.cache_clear()


def _admit_captured_graphs() -> None:
    """Lets graphs whose only device is `npu` be captured."""
    from torch._inductor import cudagraph_utils

    original = cudagraph_utils.check_multiple_devices_or_any_cpu_nodes

    @functools.wraps(original)
    def check_multiple_devices_or_any_cpu_nodes(device_node_mapping: dict[Any, Any]) -> str | None:
        reason = original(device_node_mapping)
        others = {device.type for device in device_node_mapping} - {DEVICE, "meta"}
        return reason if others or len(device_node_mapping) != 1 else None

    cudagraph_utils.check_multiple_devices_or_any_cpu_nodes = check_multiple_devices_or_any_cpu_nodes


def _leave_numbers_unprotected() -> None:
    from torch.utils._sympy.functions import Identity

    Identity.eval = classmethod(lambda _cls, argument: argument if argument.is_Number else None)


def _name_sizes_of_bases() -> None:
    from torch import strided
    from torch._dynamo.source import TensorProperty, TensorPropertySource
    from torch._dynamo.variables import builder
    from torch._subclasses.fake_tensor import FakeTensor

    original = builder.wrap_to_fake_tensor_and_record

    @functools.wraps(original)
    def wrap_to_fake_tensor_and_record(e: Any, tx: Any, *, source: Any, **settings: Any) -> Any:
        fake = original(e, tx, source=source, **settings)
        if not isinstance(fake, FakeTensor) or fake.device.type != DEVICE or fake.layout is not strided:
            return fake
        context = tx.output.tracing_context.tensor_to_context[e]
        symbols = context.shape_env_to_source_to_symbol_cache.setdefault(id(tx.output.shape_env), {})
        for kind, numbers in ((TensorProperty.SIZE, fake.size()), (TensorProperty.STRIDE, fake.stride())):
            for axis, number in enumerate(numbers):
                if not isinstance(number, int):
                    symbols.setdefault(TensorPropertySource(source, kind, axis).name, number.node.expr)
        return fake

    builder.wrap_to_fake_tensor_and_record = wrap_to_fake_tensor_and_record


def _leave_layouts_of_convolutions() -> None:
    from torch import ops
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    from inductor_npu import providers
    from inductor_npu.tiling.convolution import is_better_channels_last

    decide = GraphLowering.decide_layout_opt

    def decide_layout_opt(gm: Any, *, is_inference: bool) -> bool:
        convolutions = gm.graph.find_nodes(op="call_function", target=ops.aten.convolution.default)
        ours = [node for node in convolutions if node.meta["val"].device.type == "npu"]
        if ours and not providers.current_provider().convolves_like_cuda:
            return config.force_layout_optimization or any(map(is_better_channels_last, ours))
        return decide(gm, is_inference=is_inference)

    GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)


def _save_what_is_drawn() -> None:
    from torch._functorch import partitioners

    from inductor_npu.device_interface.random_states import saving_what_is_drawn

    partitioners.has_recomputable_rng_ops = saving_what_is_drawn(partitioners.has_recomputable_rng_ops)


def _compare_strides_without_reciprocals() -> None:
    from torch._inductor.ir import Layout

    from inductor_npu.lowering.stride_orders import without_reciprocals

    Layout._stride_expr_ge_or_false = staticmethod(without_reciprocals(Layout._stride_expr_ge_or_false))


def _make_further_attempts() -> None:
    arrival.once_there(_attempt_again)


def _attempt_again() -> None:
    from torch._inductor.compile_fx import _InProcessFxCompile

    from inductor_npu.lowering.attempts import with_further_attempts
    from inductor_npu.lowering.settings import with_settings_of_npu

    compile_graph = with_settings_of_npu(_InProcessFxCompile.codegen_and_compile)
    _InProcessFxCompile.codegen_and_compile = with_further_attempts(compile_graph)


def _name_functions_for_logs_only() -> None:
    """Has Dynamo name no function that calls an operator, unless a log shows it when a compile begins."""
    from torch._dynamo import funcname_cache, output_graph, symbolic_convert
    from torch._dynamo.callback import on_compile_start

    logs = (output_graph.trace_call_log, symbolic_convert.trace_call_log, symbolic_convert.trace_source_log)

    def leave_files_unread(_: object) -> None:
        if any(log.isEnabledFor(logging.DEBUG) for log in logs):
            funcname_cache.clearcache()
            return
        files = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
        for file in files:
            if file is not None:
                funcname_cache.cache.setdefault(file, {})

    on_compile_start(leave_files_unread)


def _record_compile_times() -> None:
    from torch._dynamo import utils

    from inductor_npu.diagnostics.compile_time import events

    utils.CHROMIUM_EVENT_LOG = events.logger()


def _admit_flex_attention() -> None:
    from torch.nn.attention import flex_attention

    check = flex_attention._validate_device
    constants = check.__code__.co_consts
    if not any(map(_names_devices, constants)):
        raise LookupError("no set of devices")
    admitted = tuple(each | {DEVICE} if _names_devices(each) else each for each in constants)  # it may be there already
    check.__code__ = check.__code__.replace(co_consts=admitted)


def _names_devices(constant: Any) -> bool:
    return isinstance(constant, frozenset) and "cuda" in constant


def _share_graphs() -> None:
    from torch._inductor import compile_fx

    from inductor_npu.cache.shared_graphs import SharedGraphs

    for method in ("load_with_key", "_save_graph", "_get_tmp_dir_for_key"):
        getattr(compile_fx.FxGraphCache, method)  # missed here, not in the middle of a compile
    compile_fx.FxGraphCache = SharedGraphs


def _name_the_default_backend() -> None:
    import torch
    from torch.distributed.distributed_c10d import Backend

    original = Backend.__new__

    @functools.wraps(original)
    def named(cls: type, name: str) -> str:
        backend = original(cls, name)
        accelerator = torch.accelerator.current_accelerator()
        if backend != Backend.UNDEFINED or accelerator is None or accelerator.type != DEVICE:
            return backend
        return Backend.default_device_backend_map.get(DEVICE, backend)

    Backend.__new__ = named


PATCHES: tuple[Patch, ...] = (
    Patch(
        symbol="torch.utils._triton.has_triton",
        reason="a fixed table of devices decides whether Triton is there; without npu in it the scheduler refuses to "
        "generate Triton code and Dynamo skips user-written Triton kernels. Rebound before any module binds the name.",
        until="torch 2.14",
        is_needed=upstream.triton_is_looked_up_in_a_table,
        when="torch.utils._triton",
        apply=_rebind_has_triton,
    ),
    Patch(
        symbol="torch._inductor.cudagraph_utils.check_multiple_devices_or_any_cpu_nodes",
        reason="a graph is captured (mode='reduce-overhead') if its only device is cuda; npu's policy of capture, for "
        "which Inductor has a hook from torch 2.12 on, is not asked otherwise.",
        since="torch 2.12",
        is_needed=upstream.has_policies_of_capture,
        when="torch._inductor.cudagraph_utils",
        apply=_admit_captured_graphs,
    ),
    Patch(
        symbol="torch.utils._sympy.functions.Identity",
        reason="an index that is protected from expansion stays so where it is a number, which has nothing to expand: "
        "its negative, quotient and remainder have no value then, and a minimum or maximum refuses them. Merging the "
        "loops of a concatenation of (i - j).clamp(max=0), which is done for devices like npu, was an error. A method "
        "is added, nothing is replaced.",
        is_needed=upstream.numbers_are_protected,
        when="torch.utils._sympy.functions",
        apply=_leave_numbers_unprotected,
    ),
    Patch(
        symbol="torch._dynamo.variables.builder.wrap_to_fake_tensor_and_record",
        reason="a tensor and a view of it that both come into a graph name its sizes twice: as an argument's, and as "
        "those of the view's base. What is named last has no symbols on record, so that the backend gets new ones, and "
        "any guard on them, as each Triton kernel's on its number of elements, is an error (sources must not be empty, "
        "list index out of range; pytorch#93419). The symbols are put on record under each name.",
        when="torch._dynamo.variables.builder",
        apply=_name_sizes_of_bases,
    ),
    Patch(
        symbol="torch._functorch.partitioners.has_recomputable_rng_ops",
        reason="a random operator in a checkpoint is marked to be computed again, from the generator's state as it "
        "was, and only devices of a table have states that are kept: an error, from torch 2.14 on for each dropout. "
        "What the operators of npu drew, mostly a few seeds, is saved.",
        when="torch._functorch.partitioners",
        apply=_save_what_is_drawn,
    ),
    Patch(
        symbol="torch._inductor.graph.GraphLowering.decide_layout_opt",
        reason="convolutions get their operands channels last by what was measured on GPUs. Here they do where kernels "
        "of ours convolve, or a GPU's. The library of an NPU has formats of its own, and each turn is a kernel more: "
        "a ResNet's training step moved three times the bytes. config.force_layout_optimization still asks for it.",
        when="torch._inductor.graph",
        apply=_leave_layouts_of_convolutions,
    ),
    Patch(
        symbol="torch._inductor.ir.Layout",
        reason="ValueRangeError where strides of padded images of dynamic sizes are compared by remainders that have "
        "reciprocals (lowering/stride_orders.py).",
        since="torch 2.13",
        until="torch 2.14",
        is_needed=upstream.strides_are_compared_by_remainders,
        when="torch._inductor.ir",
        apply=_compare_strides_without_reciprocals,
    ),
    Patch(
        symbol="torch._inductor.compile_fx._InProcessFxCompile",
        reason="a graph that does not compile is compiled again without what is optional of ours "
        "(lowering/attempts.py); nothing else of Inductor's has the graph as it was before passes rewrote it, and sees "
        "every error. It is compiled by settings of its own (lowering/settings.py).",
        when="torch._inductor.compile_fx",
        apply=_make_further_attempts,
    ),
    Patch(
        symbol="torch._inductor.compile_fx.FxGraphCache",
        reason="ranks that need a graph at once all compile it: Inductor looks into its cache, compiles and keeps, and "
        "holds no lock meanwhile. A subclass takes its place in which, with INDUCTOR_NPU_WARMUP=1 or in a call of "
        "inductor_npu.warmup, one process compiles and the others wait.",
        when="torch._inductor.compile_fx",
        apply=_share_graphs,
    ),
    Patch(
        symbol="torch.distributed.distributed_c10d.Backend",
        reason="init_process_group() without a name takes a device's backend, and makes gloo, which the group has not, "
        "its default: DistributedDataParallel is an error then (could not find backend type 1), and the end of a "
        "program a warning. What has no name gets that of the device's backend.",
        when="torch.distributed.distributed_c10d",
        apply=_name_the_default_backend,
    ),
)

# What is extended, or fills a place that torch has for it: nothing is replaced.
EXTENSIONS: tuple[Patch, ...] = (
    Patch(
        symbol="torch._inductor.utils.GPU_TYPES",
        reason="is_gpu() switches on device guards, copies of misaligned inputs, merging of loops after fusion, and "
        "padding. A list, extended in place.",
        until="torch 2.15",
        is_needed=upstream.is_no_gpu_type,
        when="torch._inductor.utils",
        apply=_add_gpu_type,
    ),
    Patch(
        symbol="torch._dynamo.funcname_cache.cache",
        reason="for each operator that it traces Dynamo works out the name of the function that calls it, which only "
        "TORCH_LOGS=trace_call and trace_source show, from the tokens of that file: 0.27 of 1.92 s of a warm start of "
        "MiniLM. Where neither is on, imported files are entered into its cache, without names, as a compile begins.",
        when="torch._dynamo.symbolic_convert",
        apply=_name_functions_for_logs_only,
    ),
    Patch(
        symbol="torch._dynamo.utils.CHROMIUM_EVENT_LOG",
        reason="the one log that is told when each timed step of a compile begins and ends; nobody else can listen. A "
        "subclass that also adds up the times of phases takes its place (inductor_npu.compile_times).",
        when="torch._dynamo.utils",
        apply=_record_compile_times,
    ),
    Patch(
        symbol="torch.nn.attention.flex_attention._validate_device",
        reason="the devices that FlexAttention takes, in eager and compiled, are a set among the constants of a "
        "function. The set gets an element more; the function stays, so that Dynamo traces what eager runs.",
        is_needed=upstream.flex_attention_checks_devices_itself,
        when="torch.nn.attention.flex_attention",
        apply=_admit_flex_attention,
    ),
)
