"""`python -m tests.target.invented_chip golden|MODEL ...`: programs compiled for a chip that nobody makes, with values.

A process of its own: the embedded NPU is one chip for as long as a process lives.
"""

from __future__ import annotations

import sys

from inductor_npu.target import NpuTarget, register_target

# Unlike Ascend's in all that code generation looks at: few cores, a small buffer, long bursts, short vectors, no cube.
CHIP = register_target(
    NpuTarget(
        name="Invented6",
        cube_cores=0,
        vector_cores=6,
        unified_buffer=96 * 1024,
        l1=0,
        l0a=0,
        l0b=0,
        l0c=0,
        burst_bytes=64,
        vector_bytes=128,
        max_grid=1000,
        clock=1e9,
        scalar_access_cycles=10,
        transfer_cycles=40,
        few_comparisons=2,
        smallest_tile=512,
    )
)


def main(names: list[str]) -> None:
    """Raises AssertionError where a value is wrong; prints the name of what is right."""
    from inductor_npu import providers

    assert providers.current_target() is CHIP
    for name in names:
        _golden() if name == "golden" else _model(name)
        print(name)


def _golden() -> None:
    import torch

    from tests.codegen.golden_programs import PROGRAMS

    torch.manual_seed(0)
    for name, program in PROGRAMS.items():
        inputs = [
            torch.randn(x.shape) if x.is_floating_point() else torch.randint(50, x.shape) for x in program.inputs()
        ]
        expected = program.function(*inputs)
        compiled = torch.compile(program.function, dynamic=program.dynamic or None)
        actual = compiled(*(x.to("npu") for x in inputs))
        torch.testing.assert_close(_on_cpu(actual), expected, msg=lambda text, name=name: f"{name}: {text}")
        torch._dynamo.reset()


def _model(name: str) -> None:
    import torch

    from models import zoo

    model, inputs, call = zoo.build(name)
    with torch.no_grad():
        expected = call(model, *inputs)
        actual = call(torch.compile(model.to("npu")), *(x.to("npu") for x in inputs))
    torch.testing.assert_close(actual.cpu(), expected, rtol=1e-4, atol=1e-4)


def _on_cpu(results):
    return [x.cpu() for x in results] if isinstance(results, (tuple, list)) else results.cpu()


if __name__ == "__main__":
    main(sys.argv[1:])
