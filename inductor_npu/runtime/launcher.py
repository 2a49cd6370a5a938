"""From arguments to a launch: Python functions generated for one kernel, so that each decision is made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch.autograd.profiler as autograd_profiler
from torch._inductor.runtime import triton_heuristics as stock
from torch.utils._debug_mode import get_active_debug_mode

from inductor_npu.runtime.grid import written_out


class NpuCompileResult(stock.TritonCompileResult):
    """TritonCompileResult whose launcher keeps the parts that it was made of."""

    def __getstate__(self) -> dict[str, Any]:
        """What the compile cache keeps: the machine code, without the stages before it and the files that held them."""
        state = super().__getstate__()
        kernel = {**state["kernel"], "metadata_group": {}}
        kernel["asm"] = {stage: text for stage, text in kernel["asm"].items() if text is kernel["kernel"]}
        if "_run" in kernel:  # Triton from 3.5 on keeps the launcher there
            kernel["_run"] = None
        return {**state, "kernel": kernel, "packs_a_dict": isinstance(self.kernel.packed_metadata, dict)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A dictionary that the kernel's Triton packed stays one: torch makes a named tuple of each, of which the
        launcher of Ascend's Triton reads what is no dictionary (the process ended with SIGSEGV).
        """
        super().__setstate__(state)
        if state.get("packs_a_dict"):
            self.kernel.packed_metadata = state["kernel"]["packed_metadata"]

    def _gen_launcher_code(
        self, scope: dict[str, Any], def_args: list[str], runner_args: list[str], *more: Any, **named: Any
    ) -> Any:
        with written_out(self, self.config):
            launcher = super()._gen_launcher_code(scope, def_args, runner_args, *more, **named)
            launcher.grid = stock.GridExpr.from_meta(self.inductor_meta, self.config)
        launcher.def_args = def_args
        launcher.runner_args = runner_args
        launcher.scope = scope
        # From torch 2.14 on: lines that have to run before each launch, which the short way does not have.
        launcher.prepares = any(lines for lines in (*more, *named.values()))
        return launcher


def _grid_lines(grid: Any) -> list[str]:
    return [*grid.prefix, f"grid_0 = {grid.x_grid}", f"grid_1 = {grid.y_grid}", f"grid_2 = {grid.z_grid}"]


def _define(name: str, arguments: list[str], lines: list[str], last: str, scope: dict[str, Any]) -> Callable[..., Any]:
    body = "".join(f"    {line}\n" for line in [*lines, last])
    scope = dict(scope)
    exec(f"def {name}({', '.join(arguments)}):\n{body}", scope)
    return scope[name]


def short_run(autotuner: Any, launcher: Any) -> Callable[..., Any]:
    """What replaces `autotuner.run` once `launcher` is its only one: the same launch without the decisions that
    cannot change any more.

    What can change is still looked at: a profiler, debug mode or a launch hook of Triton takes the long way.
    """
    enter_calls, exit_calls, runner_args = _without_hooks(launcher)
    long_way = f"return slow_run({_call(launcher.def_args)})"
    lines = [f"if profiler._is_profiler_enabled or debug_mode() or enter_calls or exit_calls: {long_way}"]
    lines += _grid_lines(launcher.grid)
    scope = {
        **launcher.scope,
        "profiler": autograd_profiler,
        "debug_mode": get_active_debug_mode,
        "enter_calls": enter_calls,
        "exit_calls": exit_calls,
        "slow_run": autotuner.slow_run,
    }
    return _define("run", [*launcher.def_args, "stream"], lines, f"runner({', '.join(runner_args)})", scope)


def _without_hooks(launcher: Any) -> tuple[Any, Any, list[str]]:
    """The functions that Triton's launch hooks hold (lists that may still grow), and the runner's arguments without
    the hooks and the metadata made for them.

    Triton from 3.5 on has hook objects that are there even when they hold nothing; making metadata for them costs
    more than the launch. Before, a hook was one function or None, known for good when the launcher was made.
    """
    chains = [launcher.scope["launch_enter_hook"], launcher.scope["launch_exit_hook"]]
    if not all(hasattr(chain, "calls") for chain in chains):
        return None, None, launcher.runner_args
    first = launcher.runner_args.index("metadata") + 1
    return (
        chains[0].calls,
        chains[1].calls,
        [*launcher.runner_args[:first], *["None"] * 3, *launcher.runner_args[first + 3 :]],
    )


def _call(arguments: list[str]) -> str:
    return ", ".join([*arguments, "stream=stream"])
