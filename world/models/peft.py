"""PEFT: adapters on small models of transformers."""

from __future__ import annotations

import importlib
from typing import Any

from world.case import Built
from world.models import transformers

# The adapter's config, its settings, and the architectures that it is put on.
ADAPTERS: dict[str, tuple[str, dict[str, Any], tuple[str, ...]]] = {
    "lora": (
        "LoraConfig",
        {"r": 4, "lora_alpha": 8, "lora_dropout": 0.0, "init_lora_weights": False, "target_modules": "all-linear"},
        ("gpt2", "llama"),
    ),
    "dora": (
        "LoraConfig",
        {"r": 4, "use_dora": True, "init_lora_weights": False, "target_modules": "all-linear"},
        ("qwen2",),
    ),
    "ia3": ("IA3Config", {"init_ia3_weights": False}, ("t5", "llama")),
    "prefix": ("PrefixTuningConfig", {"num_virtual_tokens": 4, "task_type": "FEATURE_EXTRACTION"}, ("bert",)),
    "loha": ("LoHaConfig", {"r": 4, "init_weights": False, "target_modules": ["q_proj", "v_proj"]}, ("mistral",)),
    "oft": ("OFTConfig", {"oft_block_size": 8, "target_modules": ["q_proj", "v_proj"]}, ("llama",)),
}


def members() -> list[str]:
    return [f"{adapter}.{base}" for adapter, (_, _, bases) in ADAPTERS.items() for base in bases]


def build(member: str) -> Built:
    adapter, _, base = member.partition(".")
    kind, settings, _ = ADAPTERS[adapter]
    peft = importlib.import_module("peft")
    built = transformers.build(base)
    model = peft.get_peft_model(built.model, getattr(peft, kind)(**settings)).float().eval()
    return Built(model, (), built.kwargs, built.note)
