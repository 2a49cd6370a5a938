"""Small configs come from default ones by what their fields are called."""

from __future__ import annotations

import pytest

pytest.importorskip("transformers")

from world.models.transformers.shrinking import Size, shrunk, small_settings


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("num_hidden_layers", 32, 2),
        ("hidden_size", 4096, 64),
        ("num_attention_heads", 32, 4),
        ("num_key_value_heads", 8, 2),
        ("intermediate_size", 11008, 128),
        ("vocab_size", 32000, 200),
        ("num_local_experts", 8, 4),
        ("num_experts_per_tok", 8, 2),
        ("attention_dropout", 0.1, 0.0),
        ("rms_norm_eps", 1e-6, 1e-6),
        ("hidden_sizes", [96, 192, 384, 768], [24, 48, 96, 192]),
        ("depths", [2, 2, 18, 2], [2, 2, 2, 2]),
        ("image_size", 224, 64),
        ("skip_connect_layers", 6, 6),
        ("use_cache", True, True),
    ],
)
def test_fields_that_say_a_size_shrink(field: str, value: object, expected: object) -> None:
    assert shrunk(field, value, Size(2)) == expected


def test_a_small_config_runs() -> None:
    from transformers import LlamaConfig

    small = LlamaConfig(**small_settings(LlamaConfig(), Size(2)))
    assert (small.num_hidden_layers, small.hidden_size, small.head_dim) == (2, 64, 16)
    assert small.vocab_size == 200 and small.bos_token_id < 200


def test_a_model_is_found_with_inputs() -> None:
    from world import libraries

    built = libraries.build("transformers/qwen2")
    assert built.note == "Qwen2ForCausalLM, input_ids, attention_mask"
    assert built.model(**built.kwargs).logits.shape == (2, 12, 200)
