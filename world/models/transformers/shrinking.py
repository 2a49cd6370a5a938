"""Small configs from default ones: fields whose names say what they size get smaller values."""

from __future__ import annotations

import re
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SAME = {
    *("transformers_version", "architectures", "model_type", "dtype", "id2label", "label2id"),
    *("_name_or_path", "chunk_size_feed_forward"),
}
NOISE = {"mask_time_prob", "mask_feature_prob", "router_jitter_noise", "input_jitter_noise"}
WIDTH = 64  # of hidden states, where the default is wider


@dataclass(frozen=True)
class Size:
    """How small: at most so many `layers` (0: as many as there are), `heads` of attention; whether `widths` shrink.
    `backbone`: a small ResNet takes the place of the config's backbone.
    """

    layers: int
    heads: int = 4
    widths: bool = True
    backbone: bool = False


# To be tried one after the other: some configs tie fields that others leave alone.
SIZES = (
    Size(2),
    Size(4),
    Size(2, heads=2),
    Size(0),
    Size(2, backbone=True),
    Size(2, widths=False),
    Size(0, widths=False),
)

BACKBONE = {
    "model_type": "resnet",
    "embedding_size": 16,
    "hidden_sizes": [16, 32, 48, 64],
    "depths": [1, 1, 1, 1],
    "layer_type": "basic",
    "out_features": ["stage2", "stage3", "stage4"],
}


@dataclass(frozen=True)
class Rule:
    """A whole number above `above`, in a field whose name `pattern` finds and `but` does not, becomes `to`, or what it
    is if that is smaller.
    """

    pattern: str
    above: int
    to: Callable[[Size], int]
    but: str = "^$"

    def holds(self, field: str, value: int) -> bool:
        return value > self.above and bool(re.search(self.pattern, field)) and not re.search(self.but, field)


# Sizes that no other field depends on; the first rule that holds decides.
_FREE = (
    Rule(r"(^|_)(layers|blocks|n_layer|n_layers|hidden_groups|depth)$", 0, lambda size: size.layers or 10**6,
         but="skip|dense|feat_extract"),
    Rule(r"^first_k_dense_replace$", 0, lambda size: 1),
    Rule(r"image_size|img_size|input_size$", 64, lambda size: 64),
    Rule(r"sliding_window|attention_window|window_size|local_window", 16, lambda size: 8),
    Rule(r"max_position|n_positions|max_source_positions|max_target_positions|max_seq|^n_ctx$", 128, lambda size: 128),
    Rule(r"codebook_size|num_codes|n_codes", 64, lambda size: 64),
)  # fmt: skip
# Widths, of which one is often a multiple of another.
_WIDTHS = (
    Rule(r"per_tok|top_?k$|_topk", 0, lambda size: 2),
    Rule(r"(n_group|topk_group|expert_group)s?$", 0, lambda size: 1),
    Rule(r"experts?$", 4, lambda size: 4, but="shared"),
    Rule(r"lora_rank|low_rank|dt_rank", 16, lambda size: 16),
    Rule(r"head_dim|kv_channels|^d_kv$|head_size|qk_rope|qk_nope", 16, lambda size: WIDTH // size.heads),
    Rule(r"(key_value|kv)_heads", 0, lambda size: 2),
    Rule(r"(^|_)heads?$", 0, lambda size: size.heads),
    Rule(r"intermediate|ffn|d_ff|n_inner|feedforward|feed_forward|mlp_dim|inner_dim|ff_dim|mlp_hidden|d_inner", 128,
         lambda size: 2 * WIDTH),
    Rule(r"hidden_size|d_model|n_embd|^dim$|embed_dim|hidden_dim|embedding_size|embedding_dim|emb_dim|projection_dim|"
         r"model_dim|width|_dim$|embedding_dimension|channels|embed_size|out_dim|output_dim|proj_size", WIDTH,
         lambda size: WIDTH),
)  # fmt: skip
_LISTS_OF_WIDTHS = re.compile(r"sizes|dims|channels|width")


def small_settings(config: Any, size: Size) -> dict[str, Any]:
    """Keyword arguments that make a smaller config of the class of `config`, with its parts' configs."""
    from transformers import PretrainedConfig

    plain = config.to_dict()
    layers = ("num_hidden_layers", "num_layers", "n_layers", "n_layer")
    count = next((plain[name] for name in layers if is_number(plain.get(name))), 0)
    changed: dict[str, Any] = {}
    for field, value in plain.items():
        if field in SAME:
            continue
        now = _attribute(config, field, value)
        if isinstance(now, PretrainedConfig):
            changed[field] = {"model_type": now.model_type, **small_settings(now, size)}
        elif size.layers and isinstance(value, list | tuple) and len(value) == count > size.layers:
            kinds = list(dict.fromkeys(value)) if isinstance(value[0], str) else []  # a layer of each kind
            changed[field] = (kinds + list(value))[: size.layers]
        elif (new := shrunk(field, value, size)) != value:
            changed[field] = new
    if {"expand", "num_heads", "head_dim", "hidden_size"} <= set(plain) and "num_heads" in changed:  # Mamba 2
        changed["head_dim"] = changed.get("hidden_size", plain["hidden_size"]) * plain["expand"] // changed["num_heads"]
    return changed


def _attribute(config: Any, field: str, otherwise: Any) -> Any:
    """The field as an object; `otherwise`, its plain form, where a config refuses to say it, as one value for all
    layers.
    """
    try:
        return getattr(config, field, otherwise)
    except Exception:  # noqa: BLE001 - of any type that the library chooses
        return otherwise


def shrunk(field: str, value: Any, size: Size) -> Any:
    """The smaller value of one field, or the same."""
    if isinstance(value, float):
        return 0.0 if "drop" in field or field in NOISE else value
    if isinstance(value, dict) and field in ("rope_parameters", "rope_scaling") and size.widths:
        return {**value, "mrope_section": [4, 2, 2]}  # adds up to half a head; models without sections ignore it
    if isinstance(value, list | tuple):
        return _shrunk_list(field, value, size)
    if not is_number(value):
        return value
    if field.endswith(("token_id", "token_index", "tokens_id")):
        return 100 + zlib.crc32(field.encode()) % 90 if value >= 100 else value
    if "vocab_size" in field:
        return min(value, 200)
    if field in ("patch_size", "patch_size_h") and value in (14, 32):
        return 16
    rule = next((rule for rule in (*_FREE, *(_WIDTHS if size.widths else ())) if rule.holds(field, value)), None)
    return value if rule is None else min(value, rule.to(size))


def _shrunk_list(field: str, value: Any, size: Size) -> Any:
    if field.endswith("token_id"):
        return [1]
    if field == "depths" and size.layers:
        return [min(each, 2) for each in value]
    named = _LISTS_OF_WIDTHS.search(field) and "image" not in field
    wide = bool(value) and all(is_number(each) and each >= 32 and each % 4 == 0 for each in value)
    return [max(16, each // 4) for each in value] if size.widths and named and wide else value


def is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
