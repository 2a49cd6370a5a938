"""MiniLM fine-tuned on real sentences, with the training of examples/distributed/ddp.py: any number of ranks gives the
loss curve of one process.
"""

from __future__ import annotations

from importlib.util import find_spec

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from examples.embeddings import WEIGHTS_PACKAGE
from tests.distributed.ranks import Ranks


def fine_tuned(device, steps):
    from examples.distributed import ddp
    import time
    t=time.time()
    torch.manual_seed(0)
    model = ddp.TopicClassifier().to(device)
    data = ddp.labelled_sentences()
    if dist.is_initialized():
        model = DistributedDataParallel(model)
        data = tuple(whole.chunk(dist.get_world_size())[dist.get_rank()] for whole in data)
    out= [loss.item() for loss in ddp.train(model, tuple(whole.to(device) for whole in data), steps)]
    print(time.time()-t, flush=True)
    return out


def test_it():
    import collections
    one = fine_tuned("npu", 10)
    with torch.compiler.set_stance("force_eager"):
        cpu = fine_tuned("cpu", 3)
    print("one", one); print("cpu", [a-b for a,b in zip(cpu, one)])
    for n in 2,4:
        r = Ranks(n)
        try:
            curves = r.run(fine_tuned, "npu", 10, seconds=600)
        finally:
            r.stop()
        print(n, [sum(c)/n-a for c,a in zip(zip(*curves), one)])
