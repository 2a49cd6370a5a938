"""Every touch of torch's and Triton's private state that no official hook covers, in one list.

Each entry names the symbol, why it has to be touched, and the versions that need it; `tests/setup/test_compat.py`
counts the entries and fails when one of them is no longer needed. Nothing here imports Dynamo, Inductor or Triton at
module level.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from inductor_npu.errors import MovedSymbolError
from inductor_npu.setup import arrival, upstream

DEVICE = "npu"
# Numbers of 4 bytes in a block of 32 bytes, the least that an NPU moves at a time.
_PARTS_IN_A_BLOCK = 8


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


def _add_gpu_type() -> None:
    arrival.once_there(_extend_gpu_types)


def _extend_gpu_types() -> None:
    import torch
    from torch._inductor import utils

    if any(getattr(torch, name).is_available() for name in utils.GPU_TYPES):
        # get_gpu_type() asserts that there is one GPU type and caches its answer. Where torch has another accelerator
        # it stays the answer: nothing changes for it, and code for npu never asks.
        utils.get_gpu_type()
        utils.GPU_TYPES.append(DEVICE)
        return
    utils.GPU_TYPES.append(DEVICE)
    utils.get_gpu_type.cache_clear()


def _teach_benchmarker() -> None:
    """Lets Benchmarker.benchmark use ours for `npu`."""
    from torch._inductor.runtime import benchmarking

    for benchmarker in (benchmarking.Benchmarker, benchmarking.TritonBenchmarker, benchmarking.InductorBenchmarker):
        if "benchmark_gpu" in vars(benchmarker):
            benchmarker.benchmark_gpu = _timed_on_npu(vars(benchmarker)["benchmark_gpu"])


def _timed_on_npu(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def benchmark_gpu(self: Any, *args: Any, **kwargs: Any) -> Any:
        import torch

        from inductor_npu.device_interface.benchmarker import benchmark_npu

        is_npu = torch.accelerator.current_accelerator() == torch.device(DEVICE)
        return (benchmark_npu if is_npu else original)(self, *args, **kwargs)

    return benchmark_gpu


def _answer_for_npu_without_a_warning() -> None:
    from torch._inductor import utils

    original = utils.is_big_gpu

    @functools.wraps(original)
    def is_big_gpu(index_or_device: Any = 0) -> bool:
        return getattr(index_or_device, "type", None) != DEVICE and original(index_or_device)

    utils.is_big_gpu = is_big_gpu


def _split_rows_in_blocks() -> None:
    from torch._inductor.choices import InductorChoices

    original = InductorChoices.reduction_split_factor
    signature = inspect.signature(original)  # a static method until torch 2.13, one of an object from 2.14 on

    @functools.wraps(original)
    def reduction_split_factor(*args: Any, **named: Any) -> int:
        parts = original(*args, **named)
        given = signature.bind(*args, **named).arguments
        inner_reduction, results = given["inner_reduction"], given["numel_hint"]
        if given["device"].type != DEVICE or not inner_reduction or results == 1 or parts == 1:
            return parts
        return -(-parts // _PARTS_IN_A_BLOCK) * _PARTS_IN_A_BLOCK

    kind = staticmethod if isinstance(vars(InductorChoices)["reduction_split_factor"], staticmethod) else (lambda f: f)
    InductorChoices.reduction_split_factor = kind(reduction_split_factor)


def _scan_pointwise() -> None:
    function = upstream.associative_scan()
    function.__code__ = upstream.with_npu_in_tables(function.__code__)


def _donate_what_nobody_else_has() -> None:
    from torch._functorch._aot_autograd import graph_compile

    original = graph_compile.collect_bw_donated_buffer_idxs

    @functools.wraps(original)
    def collect_bw_donated_buffer_idxs(fw_module: Any, bw_module: Any, fw_metadata: Any) -> list[int]:
        from inductor_npu.lowering.graph_passes.nodes import is_on_npu, memory_of

        donated = original(fw_module, bw_module, fw_metadata)
        (output,) = fw_module.graph.find_nodes(op="output")
        leaving = output.args[0]
        saved = leaving[fw_metadata.tensors_saved_for_backwards_slice]
        first = fw_metadata.num_symints_saved_for_bw
        if not any(is_on_npu(saved[place - first].meta["val"]) for place in donated):
            return donated
        results = (result for result in leaving[: fw_metadata.num_forward] if hasattr(result, "meta"))
        kept = frozenset[Any]().union(*map(memory_of, results))
        return [place for place in donated if memory_of(saved[place - first]).isdisjoint(kept)]

    graph_compile.collect_bw_donated_buffer_idxs = collect_bw_donated_buffer_idxs


def _leave_numbers_unprotected() -> None:
    from torch.utils._sympy.functions import Identity

    Identity.eval = classmethod(lambda _cls, argument: argument if argument.is_Number else None)


def _keep_order_of_positions() -> None:
    from torch._inductor.ir import ComputedBuffer, inverse_reorder, same_reorder

    by_memory = ComputedBuffer._apply_loop_reordering
    simplify_and_reorder = ComputedBuffer.simplify_and_reorder

    @functools.wraps(simplify_and_reorder)
    def keeping_positions(self: Any, *args: Any, **kwargs: Any) -> Any:
        if self.get_device().type != DEVICE or not str(self.get_reduction_type()).startswith(("argmax", "argmin")):
            return simplify_and_reorder(self, *args, **kwargs)
        _, _, (_, reduced) = self.get_default_sizes_body()

        def reordered(variables: Any, support: Any, sizes: Any, addresses: Any, *more: Any) -> Any:
            if list(variables) != list(reduced):
                return by_memory(variables, support, sizes, addresses, *more)
            order = range(len(sizes))
            return list(sizes), same_reorder(order), inverse_reorder(order)

        self._apply_loop_reordering = reordered
        try:
            return simplify_and_reorder(self, *args, **kwargs)
        finally:
            del self._apply_loop_reordering

    ComputedBuffer.simplify_and_reorder = keeping_positions


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


def _write_over_nothing_that_is_read() -> None:
    import torch
    from torch._inductor.fx_passes.reinplace import inplaceable_ops
    from torch._inductor.fx_utils import get_node_storage
    from torch.utils import _pytree

    def kept_apart(may: Callable[[Any], bool]) -> Callable[[Any], bool]:
        def may_overwrite(node: Any) -> bool:
            from inductor_npu.lowering.graph_passes.nodes import is_on_npu

            if not is_on_npu(node.meta["val"]):
                return may(node)
            written, *read = node.args
            tensors = (part for part in _pytree.tree_leaves(read) if isinstance(part, torch.fx.Node))
            return may(node) and get_node_storage(written) not in map(get_node_storage, tensors)

        return may_overwrite

    for operator in (torch.ops.aten.index_put.default, torch.ops.aten._unsafe_index_put.default):
        known = inplaceable_ops[operator]
        inplaceable_ops[operator] = replace(known, extra_check=kept_apart(known.extra_check))


def _leave_layouts_of_convolutions() -> None:
    from torch import ops
    from torch._inductor import config
    from torch._inductor.graph import GraphLowering

    decide = GraphLowering.decide_layout_opt

    def decide_layout_opt(gm: Any, *, is_inference: bool) -> bool:
        convolutions = gm.graph.find_nodes(op="call_function", target=ops.aten.convolution.default)
        if any(node.meta["val"].device.type == "npu" for node in convolutions):
            return config.force_layout_optimization
        return decide(gm, is_inference=is_inference)

    GraphLowering.decide_layout_opt = staticmethod(decide_layout_opt)


def _save_seeds() -> None:
    from torch._functorch import partitioners

    from inductor_npu.device_interface.random_states import saving_seeds

    partitioners.has_recomputable_rng_ops = saving_seeds(partitioners.has_recomputable_rng_ops)


def _reshape_where_it_may_help() -> None:
    """Asks codegen/scheduling/reshaping.py before a loop is traced anew for another's shape."""
    from torch._inductor.scheduler import Scheduler

    original = Scheduler._try_reindex_pointwise_for_reduction

    @functools.wraps(original)
    def _try_reindex_pointwise_for_reduction(self: Any, node1: Any, node2: Any) -> bool:
        from inductor_npu.codegen.scheduling.reshaping import may_share

        if node1.get_device().type == DEVICE and not may_share(node1, node2):
            return False
        return original(self, node1, node2)

    Scheduler._try_reindex_pointwise_for_reduction = _try_reindex_pointwise_for_reduction


def _compare_strides_without_reciprocals() -> None:
    from torch._inductor.ir import Layout

    from inductor_npu.lowering.stride_orders import without_reciprocals

    Layout._stride_expr_ge_or_false = staticmethod(without_reciprocals(Layout._stride_expr_ge_or_false))


def _keep_hash_of_triton() -> None:
    """Has Triton's hash of its own files kept in our cache."""
    import triton
    from triton.runtime import cache

    take = cache.triton_key
    since = time.time()

    @functools.cache
    @functools.wraps(take)
    def triton_key() -> str:
        from inductor_npu.cache import hashes

        return hashes.kept(triton, lambda: take().encode(), since).decode()

    cache.triton_key = triton_key


def _visit_loops_once() -> None:
    """Spares our kernels the visit of loops that assign nothing from outside."""
    from triton.compiler.code_generator import CodeGenerator

    from inductor_npu.simulator.triton_backend.assignments import may_assign

    original = CodeGenerator._find_carries

    @functools.wraps(original)
    def _find_carries(self: Any, node: Any, liveins: dict[str, Any], ignore: Any = frozenset()) -> Any:
        is_ours = type(self.builder.options).__module__.startswith("inductor_npu.")
        if not is_ours or may_assign(node.body, liveins.keys() - ignore):
            return original(self, node, liveins, ignore)
        self.lscope, self.local_defs = liveins.copy(), {}  # as the original leaves them
        return [], [], []

    CodeGenerator._find_carries = _find_carries


def _name_functions_for_logs_only() -> None:
    """Has Dynamo name the function that calls an operator where a log shows it."""
    from torch._dynamo import output_graph, symbolic_convert

    original = symbolic_convert.get_funcname
    logs = (output_graph.trace_call_log, symbolic_convert.trace_call_log, symbolic_convert.trace_source_log)

    @functools.wraps(original)
    def get_funcname(filename: str, lineno: int) -> str | None:
        is_told = any(log.isEnabledFor(logging.DEBUG) for log in logs)
        return original(filename, lineno) if is_told else None

    symbolic_convert.get_funcname = get_funcname


def _record_compile_times() -> None:
    from torch._dynamo import utils

    from inductor_npu.diagnostics.compile_time import events

    utils.CHROMIUM_EVENT_LOG = events.logger()


def _keep_random_states() -> None:
    from inductor_npu.device_interface import random_states

    random_states.teach()


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
        symbol="torch._inductor.utils.GPU_TYPES",
        reason="is_gpu() switches on device guards, copies of misaligned inputs, merging of loops after fusion, and "
        "padding. A list, extended in place.",
        until="torch 2.15",
        is_needed=upstream.is_no_gpu_type,
        when="torch._inductor.utils",
        apply=_add_gpu_type,
    ),
    Patch(
        symbol="torch._inductor.runtime.benchmarking.Benchmarker.benchmark_gpu",
        reason="torch 2.11 has no register_benchmarker: every device but cpu is timed with CUDA events.",
        until="torch 2.12",
        is_needed=upstream.benchmarkers_cannot_be_registered,
        when="torch._inductor.runtime.benchmarking",
        apply=_teach_benchmarker,
    ),
    Patch(
        symbol="torch._inductor.utils.is_big_gpu",
        reason="every matrix product asks whether the device has the 68 multiprocessors that CUDA templates want, and "
        "a smaller one gets a warning about max-autotune that means nothing here: npu has no templates.",
        when="torch._inductor.utils",
        apply=_answer_for_npu_without_a_warning,
    ),
    Patch(
        symbol="torch._inductor.choices.InductorChoices.reduction_split_factor",
        reason="how many parts a row is reduced in. What they come to lies side by side in memory, row by row, and is "
        "moved one by one in rows of less than 32 bytes. A handler of choices is one for all devices, and the user's.",
        when="torch._inductor.choices",
        apply=_split_rows_in_blocks,
    ),
    Patch(
        symbol="torch._higher_order_ops.associative_scan.associative_scan",
        reason="combine_mode='pointwise', one scan in one kernel, is refused for devices that are not in a table of "
        "the function's own; the generic mode is dozens of kernels. The table, a constant of its code, is extended.",
        until="torch 2.14",
        is_needed=upstream.scans_are_refused_by_a_table,
        when="torch._higher_order_ops.associative_scan",
        apply=_scan_pointwise,
    ),
    Patch(
        symbol="torch._functorch._aot_autograd.graph_compile.collect_bw_donated_buffer_idxs",
        reason="a saved tensor is donated to the backward graph, which may overwrite, if no result has its storage. "
        "Rewrites of the joint graph (a batch of one product, random numbers) give a node a new storage and leave its "
        "views the old one, so that results were overwritten. Which views there are is asked of the operators.",
        when="torch._functorch._aot_autograd.graph_compile",
        apply=_donate_what_nobody_else_has,
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
        symbol="torch._inductor.ir.ComputedBuffer",
        reason="the loops of a reduction are put in the order of memory, also those of argmax and argmin, whose result "
        "is a position in the order of the loops: (x.t() + 1).argmax() was wrong, as it is on other devices.",
        until="torch 2.15",
        is_needed=upstream.positions_follow_the_order_of_loops,
        when="torch._inductor.lowering",
        apply=_keep_order_of_positions,
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
        symbol="torch._inductor.fx_passes.reinplace.inplaceable_ops",
        reason="index_put into a tensor that nobody reads afterwards is done in place, also where its own values or "
        "indices are that tensor: wrong values, or eager's error about overlapping memory (pytorch#156786). A check is "
        "added to the table for graphs of npu.",
        until="torch 2.15",
        is_needed=upstream.values_are_written_over,
        when="torch._inductor.fx_passes.reinplace",
        apply=_write_over_nothing_that_is_read,
    ),
    Patch(
        symbol="torch._functorch.partitioners.has_recomputable_rng_ops",
        reason="from torch 2.14 on the seeds that Inductor draws for a dropout in a checkpoint are marked to be drawn "
        "again, with the generator's state as it was, and only devices of a table have states that are kept: an error. "
        "Seeds are a few numbers: they are saved, as before, and the same dropout is computed of them again.",
        when="torch._functorch.partitioners",
        apply=_save_seeds,
    ),
    Patch(
        symbol="torch._inductor.scheduler.Scheduler",
        reason="_try_reindex_pointwise_for_reduction traces a loop anew, twice, for each pair that shares a buffer, to "
        "find in most cases that nothing is won; no hook of a backend comes before. It is called where something may "
        "be won (codegen/scheduling/reshaping.py).",
        is_needed=upstream.loops_are_reshaped,  # from torch 2.13 on
        when="torch._inductor.scheduler",
        apply=_reshape_where_it_may_help,
    ),
    Patch(
        symbol="torch._inductor.graph.GraphLowering.decide_layout_opt",
        reason="convolutions get their operands channels last, by what was measured on GPUs, and their gradients do "
        "not. The library of an NPU has formats of its own, and each turn is a kernel more: a ResNet's training step "
        "moved three times the bytes. config.force_layout_optimization still asks for it.",
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
        symbol="triton.runtime.cache",
        reason="triton_key reads Triton's library, 400 MB, in each process that compiles or only loads what was "
        "compiled. It asks our cache first, which keeps it while the files are as they were.",
        is_needed=upstream.hash_of_triton_is_not_taken_yet,
        when="triton.runtime.cache",
        apply=_keep_hash_of_triton,
    ),
    Patch(
        symbol="triton.compiler.code_generator.CodeGenerator",
        reason="_find_carries visits the body of a loop only to find the variables that a round hands to the next, so "
        "that loops within loops are visited four times, eight times. A body that assigns no variable from outside, as "
        "those of the grid and of tiles, hands none on. Kernels for other devices are compiled as ever.",
        is_needed=upstream.loops_are_visited_twice,  # from Triton 3.6 on
        when="triton.compiler.code_generator",
        apply=_visit_loops_once,
    ),
    Patch(
        symbol="torch._dynamo.symbolic_convert.get_funcname",
        reason="for each operator that it traces Dynamo works out the name of the function that calls it, which only "
        "TORCH_LOGS=trace_call and trace_source show, from the tokens of that file: a tenth of a warm start. Names "
        "are looked for where one of the two is on.",
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
        symbol="torch._prims.rng_prims.run_and_save_rng_state",
        reason="which device's generator is kept for a random operator that a checkpoint computes again is looked up "
        "in a table of the function's own; npu is an error. Those of other devices are called as ever.",
        when="torch._prims.rng_prims",
        apply=_keep_random_states,
    ),
)
