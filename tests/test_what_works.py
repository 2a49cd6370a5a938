"""docs/what-works.md, held to what happens: each row of "Does not" is tried, and says what the page says."""

from __future__ import annotations

import re
from collections.abc import Callable
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.processes import run_python

PAGE = (Path(__file__).parent.parent / "docs" / "what-works.md").read_text()


def rows(heading: str) -> list[tuple[str, ...]]:
    """The cells of the table below `heading`."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    table = [line for line in section.splitlines() if line.startswith("|")][2:]
    return [tuple(cell.strip() for cell in line.strip("|").split("|")) for line in table]


class Sine(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1


def x() -> torch.Tensor:
    return torch.ones(4, 8, device="npu")


def compile_ahead() -> None:
    torch._inductor.aoti_compile_and_package(torch.export.export(Sine(), (x(),)))


def attend_flexibly() -> None:
    from torch.nn.attention.flex_attention import flex_attention

    q = torch.ones(1, 2, 128, 16, device="npu", requires_grad=True)
    bias = torch.ones(128, device="npu", requires_grad=True)
    compiled = torch.compile(lambda q: flex_attention(q, q, q, lambda score, b, h, i, j: score + (2 * bias)[j]))
    compiled(q).sum().backward()


def scan_in_one_kernel() -> None:
    from torch._higher_order_ops import associative_scan

    torch.compile(associative_scan)(torch.maximum, x(), 0)


def reduce_over_processes() -> None:
    finished = run_python(
        """
        import tempfile, torch
        import torch.distributed as dist
        with tempfile.TemporaryDirectory() as folder:
            dist.init_process_group("gloo", init_method=f"file://{folder}/store", rank=0, world_size=1)
            dist.all_reduce(torch.ones(2, device="npu"))
        """
    )
    raise RuntimeError(finished.stderr)


def attend_sharded() -> None:
    finished = run_python(
        """
        import torch
        import torch.distributed as dist
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import Shard, distribute_tensor
        dist.init_process_group("hccl", store=dist.HashStore(), rank=0, world_size=1)
        x = distribute_tensor(torch.ones(1, 2, 8, 16).npu(), init_device_mesh("npu", (1,)), [Shard(1)])
        torch.nn.functional.scaled_dot_product_attention(x, x, x)
        """
    )
    raise RuntimeError(finished.stderr)


def functionalize() -> None:
    with torch._functorch.config.patch(functionalize_rng_ops=True):
        torch.compile(torch.nn.functional.dropout)(x())


def draw_by_counter() -> None:
    import torch._prims.rng_prims

    seed, offset = torch.tensor(1), torch.tensor(0)
    torch.ops.rngprims.philox_rand([4], seed, offset, None, torch.device("npu"), torch.float32)


def ask_inside() -> None:
    torch.compile(lambda x: x + torch.npu.memory_allocated(), fullgraph=True)(x())


def convolve_nested() -> None:
    nested = torch.nested.nested_tensor([torch.ones(2, 8), torch.ones(3, 8)], device="npu")
    torch.nn.functional.conv1d(nested, torch.ones(1, 8, 1, device="npu"))


def attend_as_cuda_does() -> None:
    q = torch.ones(1, 2, 8, 16, device="npu", dtype=torch.half)
    torch.ops.aten._flash_attention_forward(q, q, q, None, None, 8, 8, 0.0, False, False)


# By the beginning of the row.
DOES_NOT: dict[str, Callable[[], Any]] = {
    "AOTInductor": compile_ahead,
    "`cpp_wrapper`": lambda: torch.compile(Sine(), options={"cpp_wrapper": True})(x()),
    "`associative_scan`": scan_in_one_kernel,
    "FlexAttention": attend_flexibly,
    "gloo alone": reduce_over_processes,
    "Attention of DTensors": attend_sharded,
    "`functionalize_rng_ops`": functionalize,
    "`torch.ops.rngprims.philox_rand`": draw_by_counter,
    "Values of the running program": ask_inside,
    "FFT of half precision": lambda: torch.fft.fft(x().half()),
    "Operators of layout `torch.strided`": convolve_nested,
    "Operators of CUDA's libraries": attend_as_cuda_does,
    "Arithmetic of float8": lambda: x().to(torch.float8_e4m3fn) + 1,
    "Events and streams for other processes": lambda: ForkingPickler.dumps(torch.npu.Event()),
}


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("row", rows("Does not"), ids=lambda row: row[0][:40])
def test_what_does_not_work_says_what_the_page_says(row: tuple[str, ...]) -> None:
    what, says, instead = row
    (attempt,) = [attempt for name, attempt in DOES_NOT.items() if what.startswith(name)]
    assert instead
    if (until := re.search(r"before torch (\d\.\d+)$", what)) and torch.__version__ >= until[1]:
        pytest.skip("this torch does")
    with pytest.raises(Exception, match=re.escape(says.strip("`"))):
        attempt()


def test_every_attempt_has_a_row() -> None:
    assert len(rows("Does not")) == len(DOES_NOT)


def test_what_works_inside_graphs_works() -> None:
    """The names of functions in the page's row; other rows have test files of their own."""
    (functions,) = [cells[1] for cells in rows("Works") if cells[0].startswith("`torch.npu` inside graphs")]
    names = list(re.findall(r"`(\w+)`", functions))
    assert len(names) > 5

    def call(x: torch.Tensor) -> torch.Tensor:
        for name in names:
            getattr(torch.npu, name)()
        return x + 1

    assert torch.compile(call, fullgraph=True, backend="eager")(x()).cpu().eq(2).all()
    assert torch.export.export(Sine(), (x(),)).module()(x()).device.type == "npu"
