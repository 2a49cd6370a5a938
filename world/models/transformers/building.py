"""Builds the small model of an architecture: the first size and the first inputs with which eager runs."""

from __future__ import annotations

import contextlib
import copy
import functools
import importlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import nn

from opinfo.running import first_line
from world.case import Built, stirred
from world.models.transformers.inputs import inputs_for
from world.models.transformers.shrinking import BACKBONE, SIZES, Size, small_settings
from world.results import tensors_of

LARGEST = 40e6  # parameters
# What makes a config of an architecture whose default one has no model, or is not to be shrunk by rule.
SETTINGS: dict[str, dict[str, Any]] = {
    "autoformer": {"prediction_length": 8},
    "codegen": {"rotary_dim": 8},
    "esm": {"vocab_size": 33, "mask_token_id": 32, "pad_token_id": 1},
    "gptj": {"rotary_dim": 8},
    "hunyuan_v1_dense": {"head_dim": 16},
    "hunyuan_v1_moe": {"head_dim": 16},
    "hunyuan_vl_text": {"head_dim": 16},
    "informer": {"prediction_length": 8},
    "reformer": {"axial_pos_shape": (8, 16), "axial_pos_embds_dim": (32, 32), "is_decoder": True},
    "time_series_transformer": {"prediction_length": 8},
}


def members() -> list[str]:
    """The architectures of transformers' config mapping; of several with one model class, the first."""
    names: dict[type, str] = {}
    for kind in sorted(_auto("configuration_auto").CONFIG_MAPPING_NAMES):
        name = _class_name(kind)
        names.setdefault(name or kind, kind)
    return sorted(names.values())


def build(member: str) -> Built:
    """Raises LookupError with the first reasons if no size and no inputs fit."""
    built, _ = small(member)
    return built


def small(kind: str) -> tuple[Built, Any]:
    """The small model of an architecture with inputs, and its config."""
    config_class = _auto("configuration_auto").CONFIG_MAPPING[kind]
    name = _class_name(kind)
    model_class = getattr(importlib.import_module("transformers"), name) if name else _class_of(config_class)
    reasons: list[str] = []
    for size, config in _configs(kind, config_class(), reasons):
        try:
            model = _model(model_class, config)
        except Exception as error:  # noqa: BLE001 - of a size that does not fit: the next one is tried
            reasons.append(f"{size}: {first_line(error)}")
            continue
        for inputs in inputs_for(model, config):
            if why := _refused(model, inputs):
                reasons.append(f"{'+'.join(inputs)}: {why}")
            else:
                return Built(model, (), inputs, f"{model_class.__name__}, {', '.join(inputs)}"), config
    raise LookupError("; ".join(dict.fromkeys(reasons[:3] + reasons[-2:])) or "no inputs are known")


def _auto(module: str) -> Any:
    return importlib.import_module(f"transformers.models.auto.{module}")


def _class_name(kind: str) -> str:
    """The name of an architecture's model class: that of a language model, else the base model, else any; "" if there
    is none.
    """
    auto, known = _auto("modeling_auto"), _known_names()
    others = [name for name in dir(auto) if name.startswith("MODEL_FOR") and name.endswith("_MAPPING_NAMES")]
    for mapping in ("MODEL_FOR_CAUSAL_LM_MAPPING_NAMES", "MODEL_MAPPING_NAMES", *others):
        name = getattr(auto, mapping).get(kind)
        name = name[0] if isinstance(name, list | tuple) else name
        if name in known:
            return str(name)
    return ""


def _class_of(config_class: Any) -> Any:
    """The model class of a config that no mapping has, from the module beside the config's. Raises LookupError."""
    modeling = importlib.import_module(config_class.__module__.replace(".configuration_", ".modeling_"))
    found = [
        each
        for name, each in vars(modeling).items()
        if getattr(each, "config_class", None) is config_class and not name.endswith("PreTrainedModel")
    ]
    if not found:
        raise LookupError(f"no model class takes {config_class.__name__}")
    return min(found, key=lambda each: len(each.__name__))


@functools.cache
def _known_names() -> frozenset[str]:
    """What transformers has, none of it imported."""
    return frozenset(dir(importlib.import_module("transformers")))


def _configs(kind: str, default: Any, reasons: list[str]) -> Iterator[tuple[Size, Any]]:
    """Configs to try, smallest first."""
    seen: list[dict[str, Any]] = []
    for size in SIZES:
        if size.backbone and not hasattr(default, "backbone_config"):
            continue
        settings = {**small_settings(default, size), **SETTINGS.get(kind, {})}
        if size.backbone:
            settings["backbone_config"] = BACKBONE
            without = {"backbone": None, "use_timm_backbone": False}
            settings |= {name: value for name, value in without.items() if hasattr(default, name)}
        if settings in seen:
            continue
        seen.append(settings)
        try:
            config = type(default)(**copy.deepcopy(settings))
        except Exception as error:  # noqa: BLE001 - of a size that does not fit: the next one is tried
            reasons.append(f"{size}: {first_line(error)}")
            continue
        for each in (config, config.get_text_config()):
            with contextlib.suppress(AttributeError):
                each.use_cache = False
        yield size, config


def _model(model_class: Any, config: Any) -> nn.Module:
    """Raises ValueError for a model that is too large."""
    with torch.device("meta"):
        parameters = sum(weight.numel() for weight in model_class(copy.deepcopy(config)).parameters())
    if parameters > LARGEST:
        raise ValueError(f"{parameters / 1e6:.0f} million parameters")
    torch.manual_seed(0)
    return stirred(model_class(config).float(), scale=True)


def _refused(model: nn.Module, inputs: dict[str, torch.Tensor]) -> str:
    """Why eager does not run the model with these inputs, "" if it does."""
    torch.manual_seed(0)
    try:
        with torch.no_grad():
            results = tensors_of(copy.deepcopy(model)(**copy.deepcopy(inputs)))
    except Exception as error:  # noqa: BLE001 - of inputs that do not fit: the next ones are tried
        return first_line(error)
    some = any(tensor.is_floating_point() and tensor.numel() for tensor in results.values())
    return "" if some else "no results of floating-point dtype"
