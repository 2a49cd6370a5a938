"""diffusers: its models, small."""

from __future__ import annotations

import importlib
from typing import Any

import torch

from world.case import Built, stirred

DOWN = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
ENCODER = {
    "down_block_types": ("DownEncoderBlock2D", "DownEncoderBlock2D"),
    "up_block_types": ("UpDecoderBlock2D", "UpDecoderBlock2D"),
}
CROSS = {"cross_attention_dim": 32, "attention_head_dim": 4}
HEADS = {"num_attention_heads": 2, "attention_head_dim": 16}
JOINT = {"joint_attention_dim": 32, "caption_projection_dim": 32}

# Settings of each model.
SETTINGS: dict[str, dict[str, Any]] = {
    "UNet2DModel": {
        "sample_size": 16,
        "in_channels": 4,
        "out_channels": 4,
        **DOWN,
        "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"),
    },
    "UNet2DConditionModel": {
        "sample_size": 16,
        **CROSS,
        **DOWN,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
        "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
    },
    "ControlNetModel": {
        "conditioning_embedding_out_channels": (16, 32),
        **CROSS,
        **DOWN,
        "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
    },
    "AutoencoderKL": {**ENCODER, **DOWN},
    "AsymmetricAutoencoderKL": {
        **ENCODER,
        "norm_num_groups": 8,
        "down_block_out_channels": (32, 64),
        "up_block_out_channels": (32, 64),
    },
    "VQModel": {**ENCODER, **DOWN, "num_vq_embeddings": 32},
    "AutoencoderTiny": {
        "encoder_block_out_channels": (32, 32),
        "decoder_block_out_channels": (32, 32),
        "num_encoder_blocks": (1, 2),
        "num_decoder_blocks": (2, 1),
    },
    "AutoencoderDC": {
        "encoder_block_out_channels": (32, 64),
        "decoder_block_out_channels": (32, 64),
        "encoder_layers_per_block": (1, 1),
        "decoder_layers_per_block": (1, 1),
        "attention_head_dim": 16,
        "latent_channels": 8,
        "encoder_block_types": ("ResBlock", "EfficientViTBlock"),
        "decoder_block_types": ("ResBlock", "EfficientViTBlock"),
        "encoder_qkv_multiscales": ((), (5,)),
        "decoder_qkv_multiscales": ((), (5,)),
    },
    "DiTTransformer2DModel": {
        "num_layers": 2,
        "in_channels": 4,
        "sample_size": 16,
        "num_embeds_ada_norm": 10,
        "norm_num_groups": 2,
        **HEADS,
    },
    "PixArtTransformer2DModel": {
        "num_layers": 2,
        "in_channels": 4,
        "out_channels": 8,
        "sample_size": 16,
        "cross_attention_dim": 32,
        "caption_channels": 32,
        "norm_num_groups": 2,
        "use_additional_conditions": False,
        **HEADS,
    },
    "SD3Transformer2DModel": {
        "sample_size": 16,
        "in_channels": 4,
        "num_layers": 2,
        "pooled_projection_dim": 32,
        "out_channels": 4,
        "pos_embed_max_size": 16,
        **JOINT,
        **HEADS,
    },
    "FluxTransformer2DModel": {
        "in_channels": 16,
        "num_layers": 1,
        "num_single_layers": 1,
        "joint_attention_dim": 32,
        "pooled_projection_dim": 32,
        "axes_dims_rope": (4, 6, 6),
        **HEADS,
    },
    "UNet1DModel": {
        "sample_size": 32,
        "in_channels": 4,
        "out_channels": 4,
        "block_out_channels": (32, 32, 32),
        "extra_in_channels": 64,
        "down_block_types": ("DownBlock1DNoSkip", "DownBlock1D", "AttnDownBlock1D"),
        "up_block_types": ("AttnUpBlock1D", "UpBlock1D", "UpBlock1DNoSkip"),
    },
    "AuraFlowTransformer2DModel": {
        "sample_size": 16,
        "num_mmdit_layers": 1,
        "num_single_dit_layers": 1,
        "pos_embed_max_size": 64,
        **JOINT,
        **HEADS,
    },
    "StableAudioDiTModel": {
        "sample_size": 16,
        "in_channels": 8,
        "num_layers": 2,
        "attention_head_dim": 16,
        "num_attention_heads": 4,
        "num_key_value_attention_heads": 2,
        "out_channels": 8,
        "cross_attention_dim": 32,
        "time_proj_dim": 32,
        "global_states_input_dim": 32,
        "cross_attention_input_dim": 32,
    },
    "Transformer2DModel": {
        "num_layers": 1,
        "in_channels": 32,
        "norm_num_groups": 8,
        "cross_attention_dim": 32,
        **HEADS,
    },
}
IMAGE, WORDS, COLOURS = (2, 4, 16, 16), (2, 7, 32), (2, 3, 32, 32)
# Shapes of inputs; a tuple of numbers is a tensor of random ones.
INPUTS: dict[str, tuple[Any, ...]] = {
    "UNet2DModel": (IMAGE, "steps"),
    "UNet2DConditionModel": (IMAGE, "steps", WORDS),
    "ControlNetModel": (IMAGE, "steps", WORDS, COLOURS),
    "AutoencoderKL": (COLOURS,),
    "AsymmetricAutoencoderKL": (COLOURS,),
    "VQModel": (COLOURS,),
    "AutoencoderTiny": (COLOURS,),
    "AutoencoderDC": (COLOURS,),
    "DiTTransformer2DModel": (IMAGE, "steps", "classes"),
    "PixArtTransformer2DModel": (IMAGE, WORDS, "steps"),
    "SD3Transformer2DModel": (IMAGE, WORDS, (2, 32), "steps"),
    "FluxTransformer2DModel": ((2, 16, 16),),
    "UNet1DModel": ((2, 4, 32), "steps"),
    "AuraFlowTransformer2DModel": (IMAGE, WORDS, "times"),
    "StableAudioDiTModel": ((2, 8, 16), "times"),
    "Transformer2DModel": ((2, 32, 8, 8), WORDS),
}


def members() -> list[str]:
    return list(SETTINGS)


def build(member: str) -> Built:
    model = getattr(importlib.import_module("diffusers"), member)(**SETTINGS[member])
    return Built(stirred(model), tuple(_input(each) for each in INPUTS[member]), _keywords(member))


def _input(what: Any) -> torch.Tensor:
    named = {"steps": torch.tensor([3, 500]), "times": torch.tensor([0.3, 0.7]), "classes": torch.tensor([1, 2])}
    return named[what] if isinstance(what, str) else torch.randn(*what)


def _keywords(member: str) -> dict[str, Any]:
    if member == "PixArtTransformer2DModel":
        return {"added_cond_kwargs": {"resolution": None, "aspect_ratio": None}}
    if member == "StableAudioDiTModel":
        return {"encoder_hidden_states": torch.randn(*WORDS), "global_hidden_states": torch.randn(2, 1, 32)}
    if member == "FluxTransformer2DModel":
        return {
            "encoder_hidden_states": torch.randn(*WORDS),
            "pooled_projections": torch.randn(2, 32),
            "timestep": torch.tensor([0.3, 0.7]),
            "img_ids": torch.randn(16, 3).round(),
            "txt_ids": torch.zeros(7, 3),
        }
    return {}
