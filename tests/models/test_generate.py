"""transformers' `generate()` with a static cache, its forward pass captured: tokens as in eager on the CPU; nothing is
compiled after the first two tokens.
"""

from __future__ import annotations

import pytest
import torch
import transformers
from torch._dynamo.utils import counters

from inductor_npu.runtime.graph_capture import statistics

pytestmark = pytest.mark.slow


class Compiles:
    """A streamer of `generate`: how many graphs are compiled whenever it has a token, the prompt first."""

    def __init__(self) -> None:
        self.at_each_token: list[int] = []

    def put(self, tokens: torch.Tensor) -> None:
        self.at_each_token.append(counters["stats"]["unique_graphs"])

    def end(self) -> None:
        pass


def test_tokens_compiles_and_replays() -> None:
    torch._dynamo.reset()
    statistics._seen.clear()
    counters.clear()
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=512,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=128,
    )
    model = transformers.LlamaForCausalLM(config).eval()
    prompt = torch.randint(512, (1, 8))
    expected = model.generate(prompt, max_new_tokens=16, do_sample=False)
    model.npu()
    model.forward = torch.compile(model.forward, mode="reduce-overhead", dynamic=False)

    compiles = Compiles()
    settings = {"do_sample": False, "cache_implementation": "static", "streamer": compiles}
    for _ in range(3):
        assert torch.equal(model.generate(prompt.npu(), max_new_tokens=16, **settings).cpu(), expected)
    assert compiles.at_each_token[2] == compiles.at_each_token[-1] > 0
    decoding = max(statistics.graph_captures().values(), key=lambda each: each.replayed)
    assert decoding.replayed >= 3 * 15 - 2 and not decoding.skipped
