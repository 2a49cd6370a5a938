"""The list of passes: in order, each with a name and a switch that is part of the cache key; for `npu` only."""

from __future__ import annotations

import pytest
import torch
from torch._inductor.custom_graph_pass import CustomGraphPass

import inductor_npu.config as config
from inductor_npu.errors import UnknownGraphPassError
from inductor_npu.lowering.graph_passes.passes import PASSES, NpuGraphPasses, switched_on
from tests.lowering.graph_passes.calls import calls

OPTIONAL = [each.name for each in PASSES if each.optional]
NEEDED = [each.name for each in PASSES if not each.optional]
ROW, MATRIX = torch.randn(4, 1, 16), torch.randn(4, 16, 8)


def names() -> list[str]:
    return [each.name for each in switched_on()]


def test_each_pass_has_a_name_of_its_own_and_a_reason() -> None:
    assert len(set(OPTIONAL + NEEDED)) == len(PASSES)
    assert all(len(each.reason) > 20 for each in PASSES)


def test_all_run_by_default_in_their_order() -> None:
    assert names() == [each.name for each in PASSES]


@pytest.mark.parametrize("name", OPTIONAL)
def test_each_can_be_the_only_one(name: str) -> None:
    with config.patch(graph_passes=name):
        assert names() == [each.name for each in PASSES if each.name in (name, *NEEDED)]


def test_the_order_is_that_of_the_list_however_they_are_named() -> None:
    with config.patch(graph_passes=" , ".join(reversed(OPTIONAL))):
        assert names() == [each.name for each in PASSES]


def test_none_leaves_what_a_graph_does_not_compile_without() -> None:
    with config.patch(graph_passes="none"):
        assert names() == NEEDED


def test_a_name_that_is_not_there_is_an_error_that_says_which_are() -> None:
    with config.patch(graph_passes="wide_pool"), pytest.raises(UnknownGraphPassError, match="wide_pools"):
        switched_on()


def test_the_switch_is_part_of_the_cache_key() -> None:
    assert "graph_passes" in config.save_config_portable()


def test_torchs_own_switch_knows_them() -> None:
    def pool(image: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.max_pool2d(image, 5, 1, 2)

    image = torch.randn(2, 9, 17)
    assert [calls(pool, image, disabled_passes=name) for name in ("", "npu_wide_pools")] == [
        {"kernel": 2},
        {"kernel": 1},
    ]


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> list[torch.fx.GraphModule]:
    """The graphs that were given to the passes."""
    seen: list[torch.fx.GraphModule] = []
    original = NpuGraphPasses.__call__

    def __call__(self: NpuGraphPasses, gm: torch.fx.GraphModule) -> None:  # noqa: N807
        seen.append(gm)
        original(self, gm)

    monkeypatch.setattr(NpuGraphPasses, "__call__", __call__)
    return seen


def test_graphs_of_the_cpu_never_get_there(runs: list[torch.fx.GraphModule]) -> None:
    torch.compile(torch.mm)(MATRIX[0], MATRIX[0].t())
    assert runs == []
    torch.compile(torch.bmm)(ROW.to("npu"), MATRIX.to("npu"))
    assert len(runs) == 1


class Remember(CustomGraphPass):
    """A pass of a user: it has seen the graph, and turns its sine into a cosine."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def __call__(self, graph: torch.fx.Graph) -> None:
        self.seen += [node.target for node in graph.nodes]
        for node in graph.find_nodes(op="call_function", target=torch.ops.aten.sin.default):
            node.target = torch.ops.aten.cos.default

    def uuid(self) -> str:
        return "remember"


@pytest.mark.parametrize("hook", ["post_grad_custom_pre_pass", "post_grad_custom_post_pass"])
def test_passes_of_the_user_run_as_ever_and_see_the_graph_before_ours(hook: str) -> None:
    mine = Remember()
    with torch._inductor.config.patch({hook: mine}):
        result = torch.compile(lambda a, b: torch.bmm(a, b).sin())(ROW.to("npu"), MATRIX.to("npu"))
    torch.testing.assert_close(result.cpu(), torch.bmm(ROW, MATRIX).cos())
    assert torch.ops.aten.bmm.default in mine.seen


def test_a_branch_of_a_condition_is_a_graph_like_any_other() -> None:
    def either(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.cond(a.sum() > 0, lambda a, b: torch.bmm(a, b) + 1, lambda a, b: torch.bmm(a, b) - 1, (a, b))

    for row in (ROW.abs(), -ROW.abs()):
        result = torch.compile(either, fullgraph=True)(row.to("npu"), MATRIX.to("npu"))
        torch.testing.assert_close(result.cpu(), either(row, MATRIX))
