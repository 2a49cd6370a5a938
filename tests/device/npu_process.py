"""Runs a piece of Python in a process of its own, with the embedded NPU even where torch has another accelerator."""

from __future__ import annotations

import functools

from tests.processes import run_forked

run_on_npu = functools.partial(run_forked, INDUCTOR_NPU_PROVIDER="simulator")
