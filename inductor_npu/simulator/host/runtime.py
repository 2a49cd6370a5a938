"""What the embedded NPU's device is built of."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from inductor_npu import package_runtime
from inductor_npu.device.runtime import Runtime
from inductor_npu.simulator.host.settings import device_settings, host_threads
from inductor_npu.simulator.memory_check import is_checked


def _set_up(module: ModuleType) -> None:
    module.ask_for_host_threads(host_threads())
    if is_checked():
        module.turn_on_checks()


RUNTIME = Runtime(
    name="the embedded NPU's device",
    sources=(Path(__file__).parent / "csrc", package_runtime.SOURCES),
    settings=device_settings,
    includes=lambda: (package_runtime.INCLUDES,),
    link_flags=lambda: ("-ldl",),
    collectives="inductor_npu.simulator.host.collectives:make_gloo",
    loaded=_set_up,
)
