"""Captured graphs of device npu: work that is recorded once and queued again by one call, with torch.cuda's semantics.

On the embedded NPU a graph is a list of launches, copies and calls of the library in C++ (csrc/graph.h). What has no
place in one raises an error that names it: synchronisations, `item()`, copies from and to memory of the host that is
not pinned, operators whose results' sizes depend on values.
"""

from __future__ import annotations

import gc
from types import TracebackType
from typing import Any

import torch

from inductor_npu.device.npu.devices import synchronize
from inductor_npu.device.npu.memory import empty_cache
from inductor_npu.device.npu.runtime import extension, is_initialized
from inductor_npu.device.npu.streams import Stream, StreamContext

PoolId = tuple[int, int]

_NO_POOL: PoolId = (0, 0)
_ERROR_MODES = ("default", "global", "thread_local", "relaxed")


def is_current_stream_capturing() -> bool:
    """Whether this thread's current stream captures a graph."""
    return is_initialized() and extension().is_current_stream_capturing()


def graph_pool_handle() -> PoolId:
    """The id of a new memory pool, for graphs that are to share one."""
    return extension().new_pool_id(by_user=False)


class NPUGraph:
    """A captured graph; `graph` captures into it.

    A graph replays with the memory that it was captured with. New values reach it by `copy_` into its inputs, which the
    caller keeps alive: a replay after one of them was freed is a RuntimeError (unless the capture began with
    `check_input_liveness=False`). Its other memory is a private pool, which it keeps until `reset` or its end.

    `keep_graph` is accepted as torch.cuda's graphs do; there is no other form of the graph to be kept.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        self._graph: Any = None

    def capture_begin(
        self,
        pool: PoolId | MemPool | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = True,
    ) -> None:
        """Starts to capture the current stream, and those that wait for it. `pool`: that of another graph, a MemPool or
        its id; None makes a new one. The modes differ in what other threads may do meanwhile: here, anything.

        Raises RuntimeError if the graph holds a capture or the stream captures already, ValueError for another mode.
        """
        if capture_error_mode not in _ERROR_MODES:
            raise ValueError(f"capture_error_mode must be one of {', '.join(_ERROR_MODES)}, got {capture_error_mode!r}")
        if self._graph is None or not (self._graph.is_captured or self._graph.is_capturing):
            self._graph = extension().NpuGraph(watched=check_input_liveness)
        self._graph.capture_begin(pool.id if isinstance(pool, MemPool) else pool or _NO_POOL)

    def capture_end(self) -> None:
        """Ends the capture, on the stream on which it began. Raises RuntimeError if an operation failed meanwhile;
        there is no graph then, and its memory is given back.
        """
        self._begun("end the capture of").capture_end()

    def instantiate(self) -> None:
        """Nothing: what was captured can be replayed as it stands. Raises RuntimeError if nothing was."""
        if not self._begun("instantiate").is_captured:
            raise RuntimeError("cannot instantiate a graph that was not captured")

    def replay(self) -> None:
        """Queues the graph's work on the current stream. Returns at once."""
        self._begun("replay").replay()

    def reset(self) -> None:
        """Forgets what was captured and gives back its memory, after all replays."""
        if self._graph is not None:
            self._graph.reset()

    def pool(self) -> PoolId:
        """The id of the graph's memory pool."""
        return self._begun("ask for the pool of").pool()

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Nothing: random operators of a graph draw from their generator anew in each replay."""

    def enable_debug_mode(self) -> None:
        """Nothing: `debug_dump` works without."""

    def debug_dump(self, debug_path: str) -> None:
        """Writes the graph's work, in the DOT language, to the file `debug_path`."""
        self._begun("dump").debug_dump(str(debug_path))

    def kernels(self) -> list[str]:
        """The names of the graph's work, in the order in which it runs: kernels, "copy", operators of the library."""
        return self._begun("describe").names()

    def _begun(self, what: str) -> Any:
        if self._graph is None:
            raise RuntimeError(f"cannot {what} a graph that was not captured: capture_begin comes first")
        return self._graph


class graph:  # noqa: N801 - torch's own spelling
    """`with torch.npu.graph(g):` captures what the block queues into the NPUGraph `g`.

    `stream` captures; None is a side stream that all captures share. `pool`: see NPUGraph.capture_begin. An error
    inside the block is the only one that is raised; the capture ends without a graph, and its memory is given back.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        npu_graph: NPUGraph,
        pool: PoolId | MemPool | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: str = "global",
        check_input_liveness: bool = True,
    ) -> None:
        cls = type(self)
        if stream is None and cls.default_capture_stream is None:
            cls.default_capture_stream = Stream()
        self.npu_graph = npu_graph
        self.pool = pool
        self.capture_stream = stream if stream is not None else cls.default_capture_stream
        self.capture_error_mode = capture_error_mode
        self.check_input_liveness = check_input_liveness
        self._stream_context = StreamContext(self.capture_stream)

    def __enter__(self) -> None:
        synchronize()
        if torch.compiler.config.force_cudagraph_gc:
            gc.collect()
        empty_cache()
        self._stream_context.__enter__()
        try:
            self.npu_graph.capture_begin(self.pool, self.capture_error_mode, self.check_input_liveness)
        except BaseException:
            self._stream_context.__exit__(None, None, None)
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if error is None:
                self.npu_graph.capture_end()
            else:
                self.npu_graph.reset()
        finally:
            self._stream_context.__exit__(kind, error, traceback)


class MemPool:
    """A private pool of device memory; `use_mem_pool` allocates from it, and graphs can be captured with its `id`.

    It keeps its memory while the object lives. `allocator` must be None: there is one allocator.
    """

    def __init__(self, allocator: None = None, use_on_oom: bool = False) -> None:
        if allocator is not None or use_on_oom:
            raise NotImplementedError(
                "torch.npu.MemPool: the embedded NPU has one allocator, and no memory that is kept for want of other: "
                "use MemPool() without arguments"
            )
        self.id: PoolId = extension().new_pool_id(by_user=True)
        self.device = extension().current_device()
        extension().retain_pool(self.device, self.id)

    def use_count(self) -> int:
        """How many objects keep the pool: this one, and graphs that were captured with it."""
        return extension().pool_owners(self.device, self.id)

    def snapshot(self) -> list[dict[str, Any]]:
        """The pool's segments, as `torch.npu.memory_snapshot` gives them."""
        return [segment for segment in extension().memory_snapshot() if segment["segment_pool_id"] == self.id]

    def __del__(self) -> None:
        if is_initialized():
            extension().release_pool(self.device, self.id)


class use_mem_pool:  # noqa: N801 - torch's own spelling
    """`with torch.npu.use_mem_pool(pool):` allocates what this thread needs in the block from the MemPool."""

    def __init__(self, pool: MemPool, device: object = None) -> None:
        self._pool = pool
        self._before: PoolId = _NO_POOL

    def __enter__(self) -> None:
        self._before = extension().exchange_thread_pool(self._pool.id)

    def __exit__(self, *exception: object) -> None:
        extension().exchange_thread_pool(self._before)
