"""The header of an emitted kernel, and what it may not break: equal kernels stay one kernel."""

from __future__ import annotations

import re

import pytest
import torch

from inductor_npu.providers import current_target
from tests.codegen.texts import module_of


def kernels_in(module: str) -> list[str]:
    """The kernels of a module, from the line after `@triton.jit` on."""
    return re.findall(r"^@triton\.jit\n(.*?)^''', device_str", module, re.DOTALL | re.MULTILINE)


def header_of(kernel: str) -> list[str]:
    return [line.strip() for line in kernel.splitlines() if line.strip().startswith("#")]


def test_the_header_says_what_is_computed_and_how_it_is_tiled():
    (kernel,) = kernels_in(module_of(lambda x: torch.softmax(x, -1), torch.randn(50, 768, device="npu")))
    operators, tile, needs, tiles = header_of(kernel)
    assert operators == "# aten._softmax"
    rows = int(re.fullmatch(r"# tile \[x, r0\]: x (\d+) of 50; r0 all of 768 \(in 1024\)", tile)[1])
    room = current_target().unified_buffer // 1024
    moved = rows * 768 * (4 + 4) // 1024
    assert re.fullmatch(rf"# about \d+ of {room} KiB of Unified Buffer; moves {moved} KiB a tile", needs)
    count = -(-50 // rows)
    cores = current_target().vector_cores
    assert tiles == f"# {count} tiles, on {min(count, cores)} of {cores} programs"


def test_the_header_names_axes_that_are_walked_and_loops_inside_a_tile():
    (kernel,) = kernels_in(module_of(lambda x: x.float().sum(-1), torch.randn(3, 1 << 20, device="npu").half()))[:1]
    header = "\n".join(header_of(kernel))
    assert re.search(r"# one index at a time: \w of \d+", header)
    assert "# in a loop inside the tile: r0" in header


def test_a_size_known_at_run_time_only_has_no_number_in_the_header():
    options = {"dynamic": True}
    (kernel,) = kernels_in(module_of(lambda x: x * 2.0, torch.randn(50, 77, device="npu"), **options))
    header = "\n".join(header_of(kernel))
    assert "of xnumel" in header and "programs" not in header


def test_equal_kernels_of_different_layers_are_one_kernel():
    def model(x, a, b):
        first = torch.relu(x @ a) * 2
        return torch.relu((first @ b).view(64, 64)) * 2

    module = module_of(model, *(torch.randn(64, 64, device="npu") for _ in range(3)))
    assert len(kernels_in(module)) == 1


def test_each_launch_names_the_users_lines_without_their_folder():
    def model(x, a, b):
        first = torch.relu(x @ a)
        return torch.relu(first @ b) @ a

    module = module_of(model, *(torch.randn(64, 64, device="npu") for _ in range(3)))
    lines = re.findall(r"# (\S+):\d+: (.*)", module[module.index("def call") :])
    assert ("test_header.py", "first = torch.relu(x @ a)") in lines
    assert ("test_header.py", "return torch.relu(first @ b) @ a") in lines


@pytest.mark.parametrize("dynamic", [False, True])
def test_a_second_run_writes_the_same_text(dynamic: bool):
    inputs = torch.randn(50, 77, device="npu"), torch.randn(77, device="npu")
    first, second = (
        kernels_in(module_of(lambda x, y: torch.softmax(x + y, -1), *inputs, dynamic=dynamic)) for _ in range(2)
    )
    assert first == second
