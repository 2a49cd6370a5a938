"""Rows are reduced in parts that fill blocks, on `npu` only, and whoever else makes Inductor's choices makes them."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator

import pytest
import torch
from torch._inductor import config
from torch._inductor.choices import InductorChoices
from torch._inductor.utils import run_and_get_code
from torch._inductor.virtualized import V

from inductor_npu.codegen.scheduling import choices
from tests.compile.helpers import check

NPU, META = torch.device("npu"), torch.device("meta")


class ThreeParts(InductorChoices):
    """Choices of a user."""

    def __init__(self) -> None:
        self.asked = 0

    def reduction_split_factor(self, *_: object, **__: object) -> int:  # type: ignore[override]
        self.asked += 1
        return 3

    def whose(self) -> str:
        return "the user's"


@pytest.fixture
def mine() -> Iterator[ThreeParts]:
    """A user's choices, corrected for `npu`."""
    handler = ThreeParts()
    with V.set_choices_handler(handler):
        choices.correct_choices()
        yield handler


@pytest.mark.parametrize(
    ("device", "rows", "inner", "parts"), [(NPU, 4, True, 8), (NPU, 1, True, 4), (NPU, 4, False, 3), (META, 4, True, 3)]
)
def test_parts_of_several_rows_on_npu_are_a_multiple_of_eight(
    mine: ThreeParts, device: torch.device, rows: int, inner: bool, parts: int
) -> None:
    assert V.choices.reduction_split_factor(device, 100000, rows, inner_reduction=inner) == parts
    assert mine.asked == 1


@pytest.mark.parametrize(("shape", "parts"), [((8, 5, 9, 33, 31), 24), ((64, 4, 128, 136), 32), ((3, 2, 1, 99991), 3)])
def test_rows_of_several_axes_are_reduced_between_indices(shape: tuple[int, ...], parts: int) -> None:
    """As those of a batch norm. What has a prime length stays whole, though the parts are few then."""
    taken = []
    chosen = choices._NpuChoices.reduction_split_factor

    def remember(*arguments: object, **options: object) -> int:
        taken.append(chosen(*arguments, **options))  # type: ignore[arg-type]
        return taken[-1]

    torch._dynamo.reset()  # else sizes are dynamic from the second shape on
    axes = [0, *range(2, len(shape))]
    with pytest.MonkeyPatch.context() as patched, config.patch(force_disable_caches=True):
        patched.setattr(choices._NpuChoices, "reduction_split_factor", remember)
        check(lambda x: torch.var_mean(x, axes), torch.randn(shape))
    assert taken[0] == parts


def test_tiles_go_along_parts_of_rows() -> None:
    """Eight parts of an image: torch 2.11 leaves a `//` in the address whose result is 0."""
    torch._dynamo.reset()
    images = torch.randn(4, 3, 256, 256).to("npu")
    with config.patch(force_disable_caches=True):
        _, (code, *_) = run_and_get_code(torch.compile(lambda x: torch.var_mean(x, [0, 2, 3])), images)
    tile = code.partition("# tile [")[2].partition("]")[0]
    assert "r0" in tile.split(", ")


def test_all_else_is_up_to_the_choices_that_were_there(mine: ThreeParts) -> None:
    assert V.choices.whose() == "the user's"  # type: ignore[attr-defined]
    assert not hasattr(V.choices, "nobodys")
    before = V.choices
    choices.correct_choices()
    assert V.choices is before, "they are corrected once"
    assert pickle.loads(pickle.dumps(before)).whose() == "the user's"


def test_choices_that_a_user_sets_later_are_corrected_with_the_next_graph(mine: ThreeParts) -> None:
    later = ThreeParts()
    with V.set_choices_handler(later), torch._inductor.config.patch(force_disable_caches=True):
        torch.compile(lambda x: x.sum(1))(torch.ones(4, 100000, device="npu"))
        assert later.asked
        assert V.choices.reduction_split_factor(NPU, 100000, 4, inner_reduction=True) == 8
    assert mine.asked == 0


WHOLE = {
    "mean": lambda x: x.mean(),
    "largest of a transposed": lambda x: x.t().amax(),
    "loss of rows": lambda x: torch.nn.functional.mse_loss(x[1:], x[:-1]),
    "variance": lambda x: x.var(),
}


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("rows", [123, 127, 1009])
@pytest.mark.parametrize("name", WHOLE)
def test_tiles_go_along_the_parts_of_a_whole_tensor(name: str, rows: int, dynamic: bool) -> None:
    """However its elements divide into parts: Inductor's indices in the last, shorter one have a remainder."""
    torch._dynamo.reset()
    x = torch.randn(rows, 457)
    with config.patch(force_disable_caches=True):
        result, codes = run_and_get_code(torch.compile(WHOLE[name], dynamic=dynamic), x.npu())
    torch.testing.assert_close(result.cpu(), WHOLE[name](x.double()).float(), rtol=1e-6, atol=1e-7)
    for code in codes:
        assert not re.search(r"one index at a time:.*\br0", code)
