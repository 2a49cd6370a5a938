"""sentence-transformers: its pooling layers on a small BERT."""

from __future__ import annotations

import importlib

import torch
from torch import nn

from world.case import Built
from world.models import transformers

WIDTH, TOKENS = 64, 12
POOLINGS = ("mean", "cls", "max", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


class Sentence(nn.Module):
    """Token embeddings of a language model, pooled and of length 1."""

    def __init__(self, mode: str) -> None:
        super().__init__()
        layers = importlib.import_module("sentence_transformers.models")
        self.bert = transformers.build("bert").model
        self.pooling, self.normalize = layers.Pooling(WIDTH, mode), layers.Normalize()

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        states = self.bert(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states[-1]
        features = self.pooling({"token_embeddings": states, "attention_mask": mask})
        return self.normalize(features)["sentence_embedding"]


def members() -> list[str]:
    return [f"pooling.{mode}" for mode in POOLINGS]


def build(member: str) -> Built:
    mask = torch.ones(2, TOKENS, dtype=torch.long)
    mask[0, 9:] = 0
    return Built(Sentence(member.partition(".")[2]).eval(), (torch.randint(3, 90, (2, TOKENS)), mask))
