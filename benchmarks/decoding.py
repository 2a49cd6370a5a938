"""(e) Decoding: a Llama-shaped model generates tokens one by one, with keys and values in a static cache."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import torch

from benchmarks.timing import median_seconds

PROMPT, TOKENS, MOST_TOKENS = 16, 64, 96
SECONDS_PER_SIDE = 8.0


@dataclass(frozen=True)
class Decoding:
    """Tokens per second on each side. `recompiles`: compiles after the first two tokens, on npu. `correct`: the tokens
    of all sides are the same.
    """

    captured: float
    default: float
    inductor: float
    eager: float
    recompiles: int
    correct: bool

    def to_json(self) -> dict[str, Any]:
        """Everything, as plain data."""
        return asdict(self)


class Decoder:
    """Greedy decoding on one device. `compiled` wraps what reads the prompt, and the step that makes a token of the
    last one.
    """

    def __init__(self, device: str, compiled: Callable[[Any], Any]) -> None:
        import transformers

        torch.manual_seed(0)
        self.config = transformers.LlamaConfig(
            vocab_size=4096,
            hidden_size=256,
            intermediate_size=768,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=2 * MOST_TOKENS,
        )
        self.model = transformers.LlamaForCausalLM(self.config).eval().to(device)
        self.cache = transformers.StaticCache(config=self.config, max_cache_len=MOST_TOKENS)
        self.prompt = torch.randint(4096, (1, PROMPT), generator=torch.Generator().manual_seed(1)).to(device)
        self.read, self.step = compiled(self._read), compiled(self._step)

    def _read(self, prompt: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        return self._step(prompt, position)

    def _step(self, token: torch.Tensor, position: torch.Tensor) -> torch.Tensor:
        result = self.model(token, past_key_values=self.cache, cache_position=position, use_cache=True)
        return result.logits[:, -1:].argmax(-1)

    @torch.no_grad()
    def generate(self, tokens: int = TOKENS) -> torch.Tensor:
        """[1, tokens]: what follows the prompt."""
        self.cache.reset()
        position = torch.arange(PROMPT, device=self.prompt.device)
        made = [self.read(self.prompt, position)]
        position = position[-1:] + 1
        while len(made) < tokens:
            made.append(self.step(made[-1], position))
            position = position + 1
        return torch.cat(made, 1)


def measure(rounds: int) -> Decoding:
    """Every side generates the same tokens in turn."""
    from torch._dynamo.utils import counters

    torch._dynamo.reset()
    sides = {
        "captured": Decoder("npu", lambda step: torch.compile(step, fullgraph=True, mode="reduce-overhead")),
        "default": Decoder("npu", lambda step: torch.compile(step, fullgraph=True)),
        "inductor": Decoder("cpu", lambda step: torch.compile(step, fullgraph=True)),
        "eager": Decoder("cpu", lambda step: step),
    }
    recompiles = 0
    for name, decoder in sides.items():
        decoder.generate(3)
        compiled = counters["stats"]["unique_graphs"]
        decoder.generate()
        if name in ("captured", "default"):
            recompiles += counters["stats"]["unique_graphs"] - compiled
    tokens = {name: decoder.generate().cpu() for name, decoder in sides.items()}
    seconds = median_seconds(
        {name: (decoder.generate, decoder.prompt.device.type) for name, decoder in sides.items()},
        rounds,
        SECONDS_PER_SIDE,
    )
    correct = all(torch.equal(each, tokens["eager"]) for each in tokens.values())
    return Decoding(**{name: TOKENS / value for name, value in seconds.items()}, recompiles=recompiles, correct=correct)
