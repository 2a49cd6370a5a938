"""Models of transformers, from a configuration with random weights: nothing is downloaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import transformers


@dataclass(frozen=True)
class Size:
    """How large a model is built. Widths are multiples of `heads`."""

    layers: int
    width: int
    heads: int
    vocabulary: int
    batch: int
    tokens: int
    image: int


TINY = Size(layers=2, width=64, heads=4, vocabulary=101, batch=2, tokens=17, image=32)
SMALL = Size(layers=4, width=256, heads=4, vocabulary=1000, batch=4, tokens=64, image=64)

Tensors = tuple[torch.Tensor, ...]
# The model, its inputs, and which of its outputs is compared and trained on.
Built = tuple[torch.nn.Module, Tensors, Callable[..., torch.Tensor]]


def build(name: str, size: Size = TINY) -> Built:
    """The model called `name` on the CPU in eval mode, inputs for it, and a function `(model, *inputs) -> tensor`.

    The same seed gives the same weights and inputs. Dropout is off, so that a training step can be compared.
    """
    torch.manual_seed(0)
    model, inputs, call = MODELS[name](size)
    return model.eval(), inputs, call


def _bert(size: Size) -> Built:
    config = transformers.BertConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    mask = torch.ones(size.batch, size.tokens, dtype=torch.int64)
    mask[0, size.tokens // 2 :] = 0  # a shorter sentence, padded

    def call(model: Any, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return model(input_ids=ids, attention_mask=mask).last_hidden_state

    return transformers.BertModel(config, add_pooling_layer=False), (_ids(size), mask), call


def _gpt2(size: Size) -> Built:
    config = transformers.GPT2Config(
        vocab_size=size.vocabulary,
        n_embd=size.width,
        n_layer=size.layers,
        n_head=size.heads,
        n_positions=4 * size.tokens,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
    )
    return transformers.GPT2LMHeadModel(config), (_ids(size),), _logits_without_cache


def _llama(size: Size) -> Built:
    config = transformers.LlamaConfig(
        vocab_size=size.vocabulary,
        hidden_size=size.width,
        intermediate_size=3 * size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        num_key_value_heads=size.heads // 2,
        max_position_embeddings=4 * size.tokens,
    )
    return transformers.LlamaForCausalLM(config), (_ids(size),), _logits_without_cache


def _t5(size: Size) -> Built:
    config = transformers.T5Config(
        vocab_size=size.vocabulary,
        d_model=size.width,
        d_kv=size.width // size.heads,
        d_ff=4 * size.width,
        num_layers=size.layers,
        num_heads=size.heads,
        dropout_rate=0.0,
        decoder_start_token_id=0,
    )

    def call(model: Any, ids: torch.Tensor, decoder_ids: torch.Tensor) -> torch.Tensor:
        return model(input_ids=ids, decoder_input_ids=decoder_ids, use_cache=False).logits

    return transformers.T5ForConditionalGeneration(config), (_ids(size), _ids(size)[:, : size.tokens // 2]), call


def _vit(size: Size) -> Built:
    config = transformers.ViTConfig(
        hidden_size=size.width,
        num_hidden_layers=size.layers,
        num_attention_heads=size.heads,
        intermediate_size=4 * size.width,
        image_size=size.image,
        patch_size=8,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=10,
    )
    return transformers.ViTForImageClassification(config), (_images(size),), _logits_of_image


def _resnet(size: Size) -> Built:
    config = transformers.ResNetConfig(
        embedding_size=size.width // 4,
        hidden_sizes=[size.width // 2, size.width],
        depths=[2] * min(size.layers, 2),
        layer_type="basic",
        num_labels=10,
    )
    return transformers.ResNetForImageClassification(config), (_images(size),), _logits_of_image


def _clip(size: Size) -> Built:
    shared = {
        "hidden_size": size.width,
        "intermediate_size": 4 * size.width,
        "num_hidden_layers": size.layers,
        "num_attention_heads": size.heads,
    }
    text = {"vocab_size": size.vocabulary, "max_position_embeddings": size.tokens, "eos_token_id": size.vocabulary - 1}
    config = transformers.CLIPConfig(
        text_config={**shared, **text, "bos_token_id": 0, "pad_token_id": 1},
        vision_config={**shared, "image_size": size.image, "patch_size": 8},
        projection_dim=size.width,
    )
    ids = _ids(size)
    ids[:, -1] = size.vocabulary - 1

    def call(model: Any, ids: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
        return model(input_ids=ids, pixel_values=images).logits_per_image

    return transformers.CLIPModel(config), (ids, _images(size)), call


def _ids(size: Size) -> torch.Tensor:
    return torch.randint(2, size.vocabulary - 1, (size.batch, size.tokens))


def _images(size: Size) -> torch.Tensor:
    return torch.randn(size.batch, 3, size.image, size.image)


def _logits_without_cache(model: Any, ids: torch.Tensor) -> torch.Tensor:
    return model(input_ids=ids, use_cache=False).logits


def _logits_of_image(model: Any, images: torch.Tensor) -> torch.Tensor:
    return model(pixel_values=images).logits


MODELS: dict[str, Callable[[Size], Built]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "llama": _llama,
    "t5": _t5,
    "vit": _vit,
    "resnet": _resnet,
    "clip": _clip,
}
