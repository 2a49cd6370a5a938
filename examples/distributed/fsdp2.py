# .venv/bin/torchrun --nproc-per-node=2 examples/distributed/fsdp2.py
"""Fully sharded: every rank keeps its part of each weight of a small language model. Halfway, the ranks save a
checkpoint; a new model loads it and goes on with the same losses.
"""

from __future__ import annotations

import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

TEXT = Path(__file__).parents[1] / "sentences.txt"
CHECKPOINT = Path(__file__).parents[2] / "build" / "fsdp2_checkpoint"
ROWS, LENGTH, WIDTH, HEADS = 16, 64, 128, 4


class Block(nn.Module):
    """Attention to what comes before, then a network of two layers: [rows, characters, WIDTH] -> the same."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(self.norm1(x)).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class LanguageModel(nn.Module):
    """Characters [rows, characters] -> scores of the character after each [rows * characters, 128]."""

    def __init__(self) -> None:
        super().__init__()
        self.characters, self.positions = nn.Embedding(128, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(2))
        self.scores = nn.Linear(WIDTH, 128)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        x = self.characters(text) + self.positions.weight
        for block in self.blocks:
            x = block(x)
        return self.scores(x.flatten(0, 1))


def sharded_model() -> tuple[nn.Module, torch.optim.Optimizer]:
    """A new model on this rank's device, compiled and sharded, and its optimizer."""
    model = LanguageModel().npu()
    for block in model.blocks:
        block.compile()
        fully_shard(block)
    fully_shard(model)
    return model, torch.optim.AdamW(model.parameters(), lr=3e-3)


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: range) -> None:
    """Trains on this rank's rows of the text; rank 0 prints the mean loss of all ranks before each step."""
    text = torch.tensor(list(TEXT.read_bytes()))[: ROWS * (LENGTH + 1)].view(ROWS, LENGTH + 1)
    own = text[dist.get_rank() :: dist.get_world_size()].npu()
    for step in steps:
        loss = F.cross_entropy(model(own[:, :-1]), own[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        dist.all_reduce(loss.detach(), dist.ReduceOp.AVG)
        if dist.get_rank() == 0:
            print(f"step {step}  loss {loss.item():.6f}", flush=True)


def state(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, object]:
    """What a checkpoint holds; the tensors are this rank's parts, on the CPU."""
    parts = get_state_dict(model, optimizer, options=StateDictOptions(cpu_offload=True))
    return dict(zip(("model", "optimizer"), parts))


def main() -> None:
    dist.init_process_group()
    torch.npu.set_device(int(os.environ["LOCAL_RANK"]))

    torch.manual_seed(0)
    model, optimizer = sharded_model()
    train(model, optimizer, range(5))
    dcp.save(state(model, optimizer), checkpoint_id=CHECKPOINT)
    train(model, optimizer, range(5, 10))

    model, optimizer = sharded_model()  # with other random weights
    loaded = state(model, optimizer)
    dcp.load(loaded, checkpoint_id=CHECKPOINT)
    set_state_dict(model, optimizer, model_state_dict=loaded["model"], optim_state_dict=loaded["optimizer"])
    if dist.get_rank() == 0:
        print("from the checkpoint:")
    train(model, optimizer, range(5, 10))

    dist.destroy_process_group()


if __name__ == "__main__":
    main()
