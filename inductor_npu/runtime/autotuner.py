"""A kernel and its block sizes at run time: compiled, and launched with little Python."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import sympy
import torch.autograd.profiler as autograd_profiler
from torch._inductor.runtime import triton_heuristics as stock
from torch._inductor.runtime.triton_compat import Config, OutOfResources
from torch._inductor.runtime.triton_helpers import get_constexprs

from inductor_npu import providers
from inductor_npu.device_interface.benchmarker import benchmark_npu
from inductor_npu.errors import KernelTooLargeError
from inductor_npu.runtime import launcher
from inductor_npu.runtime.grid import written_out
from inductor_npu.support import upstream


class NpuAutotuner(stock.CachingAutotuner):
    """CachingAutotuner for `npu`: once one configuration is left, `run` is replaced by a generated function that goes
    straight to the launch.

    A generated kernel that does not fit the Unified Buffer is a KernelTooLargeError, for which the scheduling plans it
    again with smaller tiles. Kernels that users wrote keep the blocks that the users chose.
    """

    # Called once with this object when one choice of blocks is left.
    _on_chosen: Callable[[NpuAutotuner], None] | None = None
    # Attributes of the stock class that are assigned here.
    fn: Any
    device_props: Any
    configs: Any  # a list until the compile results replace it, then None
    compile_results: list[Any]
    launchers: list[Any]
    cuda_kernel_saved: bool

    def _precompile_config(self, cfg: Config, **named: Any) -> Any:
        self._load_source()
        if not providers.current_provider().asserts:
            self.inductor_meta["assert_indirect_indexing"] = False
        try:
            result = super()._precompile_config(cfg, **named)
        except Exception as error:
            if refused := providers.known_error(error, self.fn.__name__):
                raise refused from error
            raise
        return launcher.NpuCompileResult(result.kernel, result.config, result.compile_meta, result.inductor_meta)

    def _load_source(self) -> None:
        """A kernel from the cache has no Python function, which only compiling needs: its module is loaded then."""
        if self.fn.fn is None:
            self.fn = self._reload_kernel().fn

    def _create_compile_meta(self, cfg: Config) -> dict[str, Any]:
        """Leaves out the keywords of a configuration that are no arguments of the kernel: options of the compiler.
        Torch versions without this method refuse such keywords.
        """
        meta = super()._create_compile_meta(cfg)
        options = self._options_of(cfg)
        meta["constants"] = {name: value for name, value in meta["constants"].items() if name not in options}
        return meta

    def _options_of(self, cfg: Config) -> dict[str, Any]:
        return {name: value for name, value in cfg.kwargs.items() if name not in self.fn.arg_names}

    def _create_compile_options(self, cfg: Config, compile_meta: dict[str, Any]) -> dict[str, Any]:
        """Adds what a configuration asks of the compiler, and what Inductor promises of its own kernels: a tensor that
        is written is one argument, unless it is named as mutated through others; kernels that write to it run one
        after the other. Leaves the threads of its own kernels to the compiler, where the target's facts say them. Torch
        versions without this method compile without the promise.
        """
        options = {**super()._create_compile_options(cfg, compile_meta), **self._options_of(cfg)}
        mutated = self.inductor_meta.get("mutated_arg_names", ())
        options["distinct_arguments"] = not self.custom_kernel and all(n.startswith("in_out_ptr") for n in mutated)
        options["exclusive"] = not self.custom_kernel
        if not self.custom_kernel and providers.current_target().threads_by_tile:
            del options["num_warps"]  # they follow from the tile
        return options

    def _precompile_worker(self) -> None:
        if self.compile_results:
            super()._precompile_worker()
            return
        fitting: list[Any] = []
        refused: Exception | None = None
        for cfg in self.configs:
            try:
                result = self._precompile_config(cfg)
                result.kernel._init_handles()
            except OutOfResources as error:
                refused = error if self.custom_kernel else self._too_large(cfg, error)
                continue
            fitting.append(result)
        if not fitting:
            raise refused or stock.NoTritonConfigsError("No triton configs are available")
        self.compile_results = fitting
        self.configs = None

    def _too_large(self, cfg: Config, reason: OutOfResources) -> KernelTooLargeError:
        error = KernelTooLargeError(kernel=self._name(), target=self.device_props.cc, blocks=cfg.kwargs, reason=reason)
        error.__cause__ = reason
        return error

    def run(self, *args: Any, stream: int, benchmark_run: bool = False, **kwargs: Any) -> Any:
        """Launches the kernel; the first call that leaves one configuration installs the short path in this object's
        place.
        """
        result = super().run(*args, stream=stream, benchmark_run=benchmark_run, **kwargs)
        if not benchmark_run and self._on_chosen is not None:
            self._tell_if_chosen()
        if not benchmark_run and len(self.launchers) == 1 and self._may_shorten():
            self.run = launcher.short_run(self, self.launchers[0])  # type: ignore[method-assign]
        return result

    def bench(self, launcher: Any, *args: Any, with_profiler: bool = False, **kwargs: Any) -> float:
        """The time of one choice of blocks, in milliseconds. Torch 2.11 knows no timer but that of CUDA's events."""
        if not upstream.benchmarkers_cannot_be_registered():
            return super().bench(launcher, *args, with_profiler=with_profiler, **kwargs)
        interface = self.get_device_interface()
        stream = interface.get_raw_stream(interface.current_device())
        saved = self.copy_args_to_cpu_if_needed(*args, **kwargs)

        def launch() -> None:
            fresh, named = self.maybe_clone_args(saved, *args, **kwargs)
            self.reset_to_zero_args(*args, **kwargs)
            launcher(*fresh, **named, stream=stream)
            self.restore_args_from_cpu(saved)

        return benchmark_npu(None, launch)

    def _interpret_args_grid(self, args: tuple[Any, ...], cfg: Config) -> Any:
        symbolic = any(isinstance(value, sympy.Basic) for value in args)
        varying, constants_too = self._without_constants(args, cfg)
        with written_out(self, cfg, symbolic):
            remaining, grid = super()._interpret_args_grid(varying, cfg)
        return (remaining if constants_too is None else constants_too), grid

    def _without_constants(self, args: tuple[Any, ...], cfg: Config) -> tuple[tuple[Any, ...], tuple[Any, ...] | None]:
        """The arguments whose names Inductor goes by to find the grid of a user's kernel. Where a graph is compiled to
        one of torch.fx, it gives constants as well, and would take one for the grid: then also the arguments with them,
        without those of the grid.
        """
        names = [name for name in self.triton_meta["signature"] if name not in cfg.kwargs]
        extra = len(self.inductor_meta.get("extra_launcher_args") or ())
        if not extra or len(args) != len(names) + extra:
            return args, None
        constants = {self.fn.arg_names[index] for index in get_constexprs(self.fn)}
        kept = [value for name, value in zip(names, args) if name not in constants]
        return (*kept, *args[len(names) :]), args[: len(names)]

    def slow_run(self, *args: Any, stream: int) -> Any:
        """`run` with everything a profiler or debug mode records."""
        return NpuAutotuner.run(self, *args, stream=stream)

    def release_benchmark_artifacts(self) -> None:
        self.__dict__.pop("run", None)
        super().release_benchmark_artifacts()

    def _may_shorten(self) -> bool:
        return (
            type(self) is NpuAutotuner
            and "run" not in self.__dict__
            and not self.dump_launch_params
            and not self.triton_interpret
            and not getattr(self, "dump_launch_tensors", False)
            and not autograd_profiler._is_profiler_enabled
            and not self.launchers[0].prepares
        )

    def when_chosen(self, call: Callable[[NpuAutotuner], None]) -> None:
        """Has `call` called with this object once it is compiled and one choice of blocks is left: now, or after the
        launch that times the candidates.
        """
        self._on_chosen = call
        self._tell_if_chosen()

    def _tell_if_chosen(self) -> None:
        if len(self.launchers) == 1 and self._on_chosen is not None and not self._may_be_tuned():
            call, self._on_chosen = self._on_chosen, None
            call(self)

    def _may_be_tuned(self) -> bool:
        return bool(self.inductor_meta.get("coordinate_descent_tuning"))

    def save_gpu_kernel(self, stream: Any, launcher: Any) -> None:
        """Called ahead of time, when one choice of blocks is left: whoever packages the kernel finds that one. Inductor
        writes files that its own loader takes.
        """
        self.compile_results = [result for result in self.compile_results if result.config is launcher.config]
        self.cuda_kernel_saved = True

    def packed(self) -> bytes:
        """This kernel with its one choice of blocks, in the form in which Inductor's compile workers send kernels. It
        need not be ready to run.
        """
        results = self.compile_results
        chosen = [launcher.config for launcher in self.launchers] or [result.config for result in results]
        (config,) = chosen
        before = self.prepare_for_pickle()
        self.compile_results = [result for result in results if result.config is config]
        try:
            return pickle.dumps(self)
        finally:
            self.compile_results = results
            self.restore_after_unpickle(before)

    def move_to(self, index: int | None) -> None:
        """Makes this kernel, which was packed for any device of its kind and is not loaded yet, one for device `index`
        (None: the one that it was compiled for).
        """
        if index is None:
            return
        self.device_props = self.device_props._replace(index=index)
        self.triton_meta["device"] = index
        for result in self.compile_results:
            result.compile_meta["device"] = index

    def rename(self, name: str, shown: str) -> None:
        """Gives this kernel, which another graph may have packed under another name and which is not loaded yet, the
        name of its function in the source, and the one that profiles and messages show. Machine code whose entry is
        looked up by the kernel's name keeps its own.
        """
        self.fn.__name__ = name
        self.inductor_meta["kernel_name"] = shown
        for result in self.compile_results:
            result.inductor_meta["kernel_name"] = shown
            if hasattr(result.kernel.metadata, "entry"):
                result.kernel.name = name
                result.kernel.metadata = result.kernel.metadata._replace(name=name)

    def __getstate__(self) -> dict[str, Any]:
        of_this_process = ("run", "_on_chosen", "_reload_kernel")
        state = {name: value for name, value in super().__getstate__().items() if name not in of_this_process}
        return {**state, "save_cache_hook": None, "filename": None}

    def _name(self) -> str:
        return self.inductor_meta.get("kernel_name", self.fn.__name__)


class NpuDebugAutotuner(NpuAutotuner, stock.DebugAutotuner):
    """As NpuAutotuner, and prints bandwidths (TORCHINDUCTOR_PROFILE=1)."""

    run = stock.DebugAutotuner.run
