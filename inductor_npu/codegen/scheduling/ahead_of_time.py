"""Ahead-of-time workers: forked processes that compile a graph's last kernels while this process compiles the first.

Code generation is Python, of which one process runs on one core; half of a cold compile is writing and compiling
kernels. So the process forks once a graph's loops are known. The child has the whole graph, and takes the same loops
from the last to the first. Compiled kernels reach this process through the compile cache, which is asked for each
kernel in any case. Their sources come through a pipe, as kernels that were written for loops like these
(kernel_reuse.py). So nothing depends on the child: whatever it has not done, or did in a state that turned out to be
another one, this process does itself.

The child never uses the device. It holds no lock of other processes but the cache's, which the system releases when a
process ends, and it is ended with the graph's last kernel at the latest.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import mmap
import os
import pkgutil
import signal
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection, Pipe
from typing import Any, NoReturn

import torch.autograd.profiler as autograd_profiler
from torch._inductor import config as inductor_config
from torch._inductor.codegen.triton import TritonScheduling
from torch._inductor.scheduler import (
    BaseSchedulerNode,
    ForeachKernelSchedulerNode,
    FusedMixOrderReductions,
    FusedSchedulerNode,
    SchedulerNode,
)
from torch._inductor.virtualized import V

from inductor_npu import config, providers
from inductor_npu.cache import kernels
from inductor_npu.codegen.emit.npu_kernel import NpuKernel
from inductor_npu.codegen.scheduling import tuning
from inductor_npu.codegen.scheduling.kernel_reuse import LoopsKey, PackedKernel, ReusableKernels
from inductor_npu.runtime.async_compile import compile_into_cache

log = logging.getLogger(__name__)

# A fork takes 30 ms, and then both processes copy the memory that they change. It does not pay for fewer loops.
FEWEST_LOOPS = 6


class CompilesAhead(TritonScheduling):
    """A scheduling whose kernels forked workers may compile before this process comes to them."""

    def compile_for_others(
        self, written: ReusableKernels, compile_kernel: Callable[[str, str], Exception | None]
    ) -> None:
        """Has kernels kept in `written` and compiled by `compile_kernel` (name, source), which returns the error if it
        cannot.
        """
        raise NotImplementedError


class AheadOfTimeWorkers:
    """The workers that compile the kernels of one graph, which `scheduling` writes; there are none where they do not
    pay.
    """

    def __init__(self, scheduling: CompilesAhead) -> None:
        self._scheduling = scheduling
        self._places: dict[BaseSchedulerNode, int] = {}
        self._last: BaseSchedulerNode | None = None
        self._has_begun = False
        self._children: list[_Child] = []

    @contextlib.contextmanager
    def compiling(self, node: BaseSchedulerNode) -> Iterator[None]:
        """Context in which the kernel of `node` is written and compiled. The first node starts the workers; the last
        one and an error end them.
        """
        if not self._has_begun:
            self._has_begun = True
            self._begin()
        if node in self._places:
            for child in self._children:
                child.reached[0] = self._places[node]
        try:
            yield
        except BaseException:
            self._end()
            raise
        if node is self._last:
            self._end()

    def receive(self, written: ReusableKernels) -> None:
        """Adds the kernels that workers have written since the last call to `written`."""
        for child in self._children:
            for message in child.messages():
                if isinstance(message, str):
                    log.debug("a process that compiles ahead: %s", message)
                else:
                    written.add(*message)

    def _begin(self) -> None:
        scheduler = self._scheduling.scheduler
        nodes = [node for node in scheduler.nodes if self._is_ours(node)]
        count = min((inductor_config.compile_threads or 1) - 1, providers.current_provider().most_children)
        if count < 1 or len(nodes) < FEWEST_LOOPS or not _is_possible():
            return
        self._places, self._last = {node: place for place, node in enumerate(nodes)}, nodes[-1]
        kernels.expect_children()
        try:
            for number in range(count):
                self._children.append(_Child(self._scheduling, nodes, number, count))
        except OSError as error:  # too little memory, or too many processes
            log.debug("no further process compiles ahead: %s", error)

    def _is_ours(self, node: BaseSchedulerNode) -> bool:
        device = node.get_device()
        return (
            isinstance(node, (SchedulerNode, FusedSchedulerNode, ForeachKernelSchedulerNode))
            and not (node.is_template() or node.is_extern() or isinstance(node, FusedMixOrderReductions))
            and device is not None
            and self._scheduling.scheduler.get_backend(device) is self._scheduling
        )

    def _end(self) -> None:
        for child in self._children:
            child.end()
        self._children.clear()


def _is_possible() -> bool:
    """Whether a worker may compile in a child of this process, and this process finds the result."""
    return (
        hasattr(os, "fork")
        and sys.platform != "darwin"  # its own libraries do not survive a fork
        and providers.current_provider().compile_only_driver is not None
        and kernels.mode() == kernels.ON
        and kernels.why_not_used() is None
        and not V.graph.cpp_wrapper  # its kernels are not kept
        and not (tuning.is_wanted() or config.accuracy)  # they run kernels
        and not autograd_profiler._is_profiler_enabled
        and not _Child.is_this
    )


class _Child:
    """A process that compiles each `count`th of the kernels of `nodes`, from the last but `number` on, until it meets
    its parent. `reached[0]` is the index in `nodes` that the parent has come to.
    """

    # Set in the child itself.
    is_this = False

    def __init__(self, scheduling: CompilesAhead, nodes: Sequence[BaseSchedulerNode], number: int, count: int) -> None:
        self.reached = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("q")
        self._reader, writer = Pipe(duplex=False)
        parent = os.getpid()
        with warnings.catch_warnings():
            # Python 3.12 warns where there are other threads: the child must not need a lock that they hold.
            warnings.simplefilter("ignore", DeprecationWarning)
            pid = os.fork()
        if pid == 0:
            _run(scheduling, nodes, range(len(nodes) - 1 - number, 0, -count), self.reached, parent, writer)
        writer.close()
        self.end = weakref.finalize(self, _end, pid, parent)

    def messages(self) -> Iterator[tuple[LoopsKey, PackedKernel] | str]:
        """Yields what the child has sent since the last call: kernels, and the reasons why some loops have none."""
        try:
            while self._reader.poll():
                yield self._reader.recv()
        except (EOFError, OSError):  # it has ended
            return


def _end(pid: int, parent: int) -> None:
    """Ends the child `pid`, if this process is its `parent` and not forked from it."""
    if os.getpid() != parent:
        return
    with contextlib.suppress(ChildProcessError):  # somebody waited for all children: it has ended
        if os.waitpid(pid, os.WNOHANG) == (0, 0):
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _run(
    scheduling: CompilesAhead,
    nodes: Sequence[BaseSchedulerNode],
    places: range,
    reached: memoryview,
    parent: int,
    writer: Connection,
) -> NoReturn:
    """The work of the child: the kernels of `nodes` at the indices `places`, in this order."""
    try:
        _leave_the_parent_alone()
        sent = _SentKernels(writer)
        scheduling.compile_for_others(sent, sent.compile)
        for place in places:
            if reached[0] >= place or os.getppid() != parent:
                break
            _begin_at(scheduling.scheduler, nodes[place])
            try:
                _compile(scheduling, nodes[place])
            except Exception as error:  # noqa: BLE001 - the parent reports it, and compiles these loops itself
                writer.send(f"{nodes[place].get_name()}: {type(error).__name__}: {error}")
    finally:
        os._exit(0)


def _compile(scheduling: CompilesAhead, node: BaseSchedulerNode) -> None:
    if isinstance(node, ForeachKernelSchedulerNode):
        scheduling.codegen_combo_kernel(node)
    else:
        scheduling.codegen_node(node)


def _begin_at(scheduler: Any, node: BaseSchedulerNode) -> None:
    """Brings the scheduler to the state in which all nodes before `node` are written."""
    scheduler.current_node = node
    scheduler.buffer_names_to_free.clear()
    scheduler.completed_operations.clear()
    for earlier in scheduler.nodes[: scheduler.nodes.index(node)]:
        scheduler.completed_operations.update(earlier.get_operation_names())


class _SentKernels(ReusableKernels):
    """The kernels that a child has written: it sends each to its parent once it is compiled."""

    def __init__(self, writer: Connection) -> None:
        super().__init__()
        self._writer = writer
        self._is_compiled = False

    def compile(self, name: str, source: str) -> Exception | None:
        """Compiles the kernel into the cache; returns the error if that fails."""
        failure = compile_into_cache(name, source)
        self._is_compiled = failure is None
        return failure

    def keep(self, loops: LoopsKey, kernel: NpuKernel) -> bool:
        is_new = super().keep(loops, kernel)
        # With dynamic sizes, writing may have added guards on them, which the parent would not know of.
        if is_new and self._is_compiled and not V.graph.sizevars.shape_env.var_to_range:
            self._writer.send((loops, PackedKernel.of(kernel)))
        return is_new


def _leave_the_parent_alone() -> None:
    """Gives up what the child inherited from its parent: the device, signals, locks, output."""
    _Child.is_this = True
    pkgutil.resolve_name(providers.current_provider().compile_only_driver or "").activate()
    gc.disable()
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals():
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)
    if "tqdm" in sys.modules:
        # Graphs are interpreted under its lock, which is one for all processes: it stays locked if the child is ended.
        sys.modules["tqdm"].tqdm.set_lock(threading.RLock())
    logging.disable()
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(null, stream)
    sys.stdout = sys.stderr = os.fdopen(null, "w")
