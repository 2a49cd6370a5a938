"""What is compiled for the times of cold and warm starts: operations, and models with one layer more on demand."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from benchmarks.operators import OPERATIONS
from models.zoo import MODELS, SMALL, Built

Run = Callable[[], Any]


@dataclass(frozen=True)
class Compiled:
    """Something to compile. `make(device, more)` gives a function without arguments whose first call compiles; `more`
    layers are added to the model, each like its last one. An operation has no layers.
    """

    name: str
    make: Callable[[str, int], Run]
    has_layers: bool


def compiled_cases() -> list[Compiled]:
    """Two operations; MiniLM, GPT-2, Llama and a ResNet in inference; training steps of three of them."""
    operations = [_operation(name) for name in ("softmax", "rope")]
    inference = [_model(name, training=False) for name in ("minilm", "gpt2", "llama", "resnet")]
    return [*operations, *inference, *(_model(name, training=True) for name in ("minilm", "gpt2", "resnet"))]


def _operation(name: str) -> Compiled:
    operation = next(operation for operation in OPERATIONS if operation.name == name)

    def make(device: str, more: int) -> Run:
        inputs = [value.to(device) for value in operation.inputs()]
        function = torch.compile(operation.function, dynamic=False)
        return lambda: function(*inputs)

    return Compiled(name, make, has_layers=False)


def _model(name: str, training: bool) -> Compiled:
    def make(device: str, more: int) -> Run:
        torch.manual_seed(0)
        model, inputs, call = _minilm(more) if name == "minilm" else _of_zoo(name, more)
        model = model.to(device).train(training)
        moved = [value.to(device) for value in inputs]
        compiled = torch.compile(model, dynamic=False)

        def infer() -> Any:
            with torch.no_grad():
                return call(compiled, *moved)

        def train() -> None:
            call(compiled, *moved).square().mean().backward()

        return train if training else infer

    return Compiled(f"{name} {'forward + backward' if training else 'inference'}", make, has_layers=True)


def _of_zoo(name: str, more: int) -> Built:
    if name != "resnet":
        return MODELS[name](dataclasses.replace(SMALL, layers=SMALL.layers + more))
    model, inputs, call = MODELS[name](SMALL)
    blocks: Any = model.get_submodule("resnet.encoder.stages")[-1].layers  # type: ignore[index]
    blocks.extend(type(blocks[-1])(SMALL.width, SMALL.width) for _ in range(more))
    return model, inputs, call


def _minilm(more: int) -> Built:
    """all-MiniLM-L6-v2 with its real weights. Dropout is off, as in the other models."""
    from examples.embeddings import SentenceEncoder, model_folder

    encoder = SentenceEncoder(model_folder())
    for module in encoder.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
    layers = encoder.bert.encoder.layer
    layers.extend(copy.deepcopy(layers[-1]) for _ in range(more))
    ids = torch.randint(1000, encoder.bert.config.vocab_size, (8, 64))
    return encoder, (ids, torch.ones_like(ids)), lambda model, *tensors: model(*tensors)
