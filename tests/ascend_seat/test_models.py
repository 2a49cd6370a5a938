"""A real model at the seat: MiniLM with its real weights embeds sentences."""

from __future__ import annotations

from examples.embeddings import embed

SENTENCES = ["A man is eating food.", "Someone is having a meal.", "The new movie is awesome."]


def test_minilm_embeds_sentences() -> None:
    embedded = embed("npu", SENTENCES)
    assert embedded.largest_difference < 1e-5
