"""Inputs to try on a model: what its `forward` takes, in the sizes that its config names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from world.models.transformers.shrinking import WIDTH, is_number

Inputs = dict[str, torch.Tensor]
_MELS = (
    *("num_mel_bins", "feature_size", "n_mels", "input_feat_per_channel", "num_mels"),
    *("feature_projection_input_dim", "input_dim"),
)
TOKENS, BATCH, DECODED = 12, 2, 7
_UNPADDED = 9  # tokens of the first row that are no padding


class Sizes:
    """What a config says of its inputs, with a usual value where it says nothing."""

    def __init__(self, config: Any) -> None:
        vision, text = getattr(config, "vision_config", None) or config, config.get_text_config()
        audio = getattr(config, "audio_config", None) or config
        vocabularies = [each for one in (config, text) if is_number(each := getattr(one, "vocab_size", None))]
        self.vocabulary = max(4, min([*vocabularies, 95]))
        self.width = _number(text, ("hidden_size",), WIDTH)
        self.mels = _number(audio, _MELS, 80)
        self.frames = 2 * _number(audio, ("max_source_positions",), 32)
        side = getattr(vision, "image_size", None) or getattr(config, "image_size", None) or 64
        side = (side, side) if is_number(side) else side
        self.image = tuple(side) if isinstance(side, list | tuple) and len(side) == 2 else (64, 64)
        self.channels = _number(vision, ("num_channels", "in_channels"), 3)
        self.patch = _number(vision, ("patch_size",), 16)
        self.depth = _number(vision, ("temporal_patch_size",), 1)
        self.video = _number(config, ("num_frames",), 4)
        self.steps = _number(config, ("max_length",), 64)
        self.context = _number(config, ("context_length",), 32)
        self.series = _number(config, ("num_input_channels",), 1)


def _number(config: Any, names: Any, otherwise: int) -> int:
    return next((value for name in names if is_number(value := getattr(config, name, None)) and value), otherwise)


def inputs_for(model: nn.Module, config: Any) -> Iterator[Inputs]:
    """Inputs of names that the model takes, the likeliest first; each set of shapes once."""
    accepted = inspect.signature(model.forward).parameters
    anything = any(one.kind is one.VAR_KEYWORD for one in accepted.values())
    seen = set()
    for inputs in _tries(set(accepted), Sizes(config)):
        taken = {
            name: tensor
            for name, tensor in inputs.items()
            if name in accepted or (anything and name in ("input_ids", "pixel_values"))
        }
        shapes = tuple((name, tuple(tensor.shape)) for name, tensor in taken.items())
        if taken and shapes not in seen:
            seen.add(shapes)
            yield taken


def _tries(accepted: set[str], sizes: Sizes) -> Iterator[Inputs]:
    ids = torch.randint(3, sizes.vocabulary, (BATCH, TOKENS))
    decoded = {"decoder_input_ids": ids[:, :DECODED]}
    if "input_ids" in accepted:
        yield from _texts(ids, accepted, sizes)
    if "pixel_values" in accepted:
        yield from _images(decoded, sizes)
    if {"hidden_states", "grid_thw"} <= accepted:
        values = sizes.channels * sizes.depth * sizes.patch**2
        yield {"hidden_states": torch.randn(16, values), "grid_thw": torch.tensor([[1, 4, 4]])}
    for name, shapes in _others(sizes).items():
        if name in accepted:
            for shape in shapes:
                yield {name: torch.randn(*shape)}
                yield {name: torch.randn(*shape), **decoded}


def _texts(ids: torch.Tensor, accepted: set[str], sizes: Sizes) -> Iterator[Inputs]:
    """Tokens, with padding in the first row; then with an image or sound beside them."""
    mask = torch.ones(BATCH, TOKENS, dtype=torch.long)
    mask[0, _UNPADDED:] = 0
    boxes = torch.randint(0, 60, (BATCH, TOKENS, 4)).sort(-1).values
    words = {"input_ids": ids, "attention_mask": mask, "decoder_input_ids": ids[:, :DECODED], "bbox": boxes}
    yield words
    yield {name: tensor for name, tensor in words.items() if name != "attention_mask"}
    yield {"input_ids": ids}
    if "pixel_values" in accepted:
        yield {**words, "pixel_values": torch.randn(BATCH, sizes.channels, *sizes.image)}
        yield {"input_ids": ids, "pixel_values": torch.randn(BATCH, 8, sizes.channels, *sizes.image)}
    if "input_features" in accepted:
        yield {**words, "input_features": torch.randn(BATCH, sizes.mels, sizes.frames)}


def _images(decoded: Inputs, sizes: Sizes) -> Iterator[Inputs]:
    """Images, videos, larger images, and images as rows of patches with their grid."""
    image = (sizes.channels, *sizes.image)
    yield {"pixel_values": torch.randn(BATCH, *image)}
    yield {"pixel_values": torch.randn(BATCH, sizes.video, *image)}
    for side in (128, 224):
        yield {"pixel_values": torch.randn(BATCH, sizes.channels, side, side)}
    yield {"pixel_values": torch.randn(BATCH, *image), **decoded}
    yield {"pixel_values": torch.randn(BATCH, 2, *image)}
    grid = {
        "image_grid_thw": torch.tensor([[1, 4, 4]]),
        "grid_thw": torch.tensor([[1, 4, 4]]),
        "spatial_shapes": torch.tensor([[4, 4], [4, 4]]),
        "pixel_attention_mask": torch.ones(BATCH, 16, dtype=torch.long),
        "merge_sizes": torch.tensor([1]),
    }
    values = sizes.channels * sizes.patch**2
    yield {"pixel_values": torch.randn(BATCH, 16, values), **grid}
    for depth in dict.fromkeys((1, sizes.depth)):
        yield {"pixel_values": torch.randn(16, depth * values), **grid}


def _others(sizes: Sizes) -> dict[str, list[tuple[int, ...]]]:
    """Shapes to try of inputs that are neither tokens nor images."""
    hidden = (BATCH, TOKENS, sizes.width)
    return {
        "input_features": [(BATCH, sizes.mels, sizes.frames), (BATCH, 64, sizes.mels), (BATCH, 1, 64, sizes.mels)],
        "input_values": [
            *((BATCH, 4000), (BATCH, 1, 4000), (BATCH, 64, sizes.mels)),
            *((BATCH, sizes.steps, sizes.mels), (BATCH, 20, 80)),
        ],
        "audio_values": [hidden, (BATCH, 1, 4000)],
        "inputs_embeds": [hidden],
        "hidden_states": [hidden, (BATCH, sizes.width, 8, 8)],
        "past_values": [(BATCH, sizes.context, sizes.series), (BATCH, sizes.context)],
        "inputs": [hidden, (BATCH, 1, 4000)],
        "spectrogram": [(BATCH, 20, 80)],
    }
