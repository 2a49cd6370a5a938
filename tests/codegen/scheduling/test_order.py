"""The order of kernels is chosen here, beside what the user does to the nodes. What it does for memory is in
tests/compile/test_peak_memory.py.
"""

from __future__ import annotations

import torch
from torch._inductor import config

from inductor_npu.codegen.scheduling.order import Nodes
from tests.compile.helpers import check


def test_a_pass_of_the_users_after_fusion_still_runs() -> None:
    seen: list[int] = []

    def count(nodes: Nodes) -> Nodes:
        seen.append(len(nodes))
        return nodes

    with config.patch(_post_fusion_custom_pass=count, force_disable_caches=True):
        check(lambda x: x.cumsum(0).softmax(-1), torch.randn(9, 13))
    assert seen
