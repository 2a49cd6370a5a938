"""Models with random weights in bf16, in inference and in training, at sizes that fill the GPU."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
import transformers

from benchmarks.gpu.case import WORKERS, Case, Prepared, Setup
from benchmarks.gpu.measuring import Call, device_turn, distance, moved, tensors_of
from models.zoo import MODELS, TINY, Built, Size

Loss = Callable[..., torch.Tensor]

MINILM = Size(layers=6, width=384, heads=12, vocabulary=30522, batch=64, tokens=512, image=0)
GPT2 = Size(layers=12, width=768, heads=12, vocabulary=50257, batch=16, tokens=512, image=0)
LLAMA = Size(layers=8, width=1024, heads=16, vocabulary=32000, batch=32, tokens=512, image=0)
LABELS = 1000
TOLERANCE = 3e-2  # of the length of all outputs, or of all gradients


def _length(output: torch.Tensor, *inputs: torch.Tensor) -> torch.Tensor:
    return output.float().square().mean()


def _next_token(logits: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), ids[:, 1:].flatten())


def _label(logits: torch.Tensor, images: torch.Tensor) -> torch.Tensor:
    labels = torch.arange(logits.shape[0], device=logits.device)
    return F.cross_entropy(logits.float(), labels % LABELS)


def of_zoo(name: str, size: Size, setup: Setup) -> Built:
    """The model `name` of models/zoo.py in this size, or, in a rehearsal, in the smallest."""
    if setup.is_rehearsal:
        size = dataclasses.replace(TINY, heads=4)
    return MODELS[name](size)


def _images(setup: Setup) -> torch.Tensor:
    return torch.randn(setup.scaled(64, 2), 3, *([64, 64] if setup.is_rehearsal else [224, 224]))


def _logits(model: Any, images: torch.Tensor) -> torch.Tensor:
    return model(pixel_values=images).logits


def _vit(setup: Setup) -> Built:
    images = _images(setup)
    config = transformers.ViTConfig(
        hidden_size=384,
        num_hidden_layers=2 if setup.is_rehearsal else 12,
        num_attention_heads=6,
        intermediate_size=1536,
        image_size=images.shape[-1],
        patch_size=16,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=LABELS,
    )
    return transformers.ViTForImageClassification(config), (images,), _logits


def _resnet50(setup: Setup) -> Built:
    depths = [1, 1, 1, 1] if setup.is_rehearsal else [3, 4, 6, 3]
    config = transformers.ResNetConfig(depths=depths, layer_type="bottleneck", num_labels=LABELS)
    return transformers.ResNetForImageClassification(config), (_images(setup),), _logits


@dataclass(frozen=True)
class Network:
    """`build(setup)` on the CPU in float32; `loss(output, *inputs)`."""

    name: str
    build: Callable[[Setup], Built]
    loss: Loss


NETWORKS = (
    Network("MiniLM", partial(of_zoo, "bert", MINILM), _length),
    Network("GPT-2 small", partial(of_zoo, "gpt2", GPT2), _next_token),
    Network("Llama, 8 layers of 1024", partial(of_zoo, "llama", LLAMA), _next_token),
    Network("ResNet-50", _resnet50, _label),
    Network("ViT-S/16", _vit, _label),
)


def sgd_step(*tensors: torch.Tensor) -> None:
    """In place on parameters, the first half, with their gradients. AdamW's step of so many compiles for minutes."""
    count = len(tensors) // 2
    torch._foreach_add_(list(tensors[:count]), list(tensors[count:]), alpha=-1e-3)


def cases() -> Iterator[Case]:
    """Each in inference and in training."""
    for network in NETWORKS:
        for training in (False, True):
            suffix = "training step" if training else "inference"
            yield Case("models", f"{network.name}, {suffix}", partial(_prepare, network, training))


def built(network: Network, setup: Setup, training: bool) -> Built:
    """The model in bf16 with inputs, on the CPU. The same call gives the same weights."""
    torch.manual_seed(0)
    model, inputs, call = network.build(setup)
    return model.to(torch.bfloat16).train(training), tuple(map(_shorter, inputs)), call


def _shorter(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to(torch.bfloat16) if tensor.is_floating_point() else tensor


def _prepare(network: Network, training: bool, setup: Setup, worker: str) -> Prepared:
    """Device seconds; and from both processes how far outputs, or gradients, are from those in float32."""
    model, inputs, call = built(network, setup, training)
    results, turns = {}, {}
    for side in WORKERS[worker]:
        device = setup.device(side)
        values, run = _step(copy.deepcopy(model), list(inputs), call, network.loss, training, device, side != "eager")
        results[side] = [tensor.detach() for tensor in tensors_of(values())]
        turns[side] = device_turn(setup, run, device)
    if worker == "ours":
        return Prepared(turns, results=results["ours"])

    def finish(numbers: Mapping[str, Any], ours: list[torch.Tensor]) -> dict[str, Any]:
        given = [_longer(tensor) for tensor in inputs]
        values, _ = _step(model.float(), given, call, network.loss, training, setup.stock, False)
        wanted = [tensor.detach() for tensor in tensors_of(values())]
        errors = {side: distance(actual, wanted) for side, actual in {**results, "ours": ours}.items()}
        usual = max(TOLERANCE, 2 * errors["stock"], 2 * errors["eager"])
        told = {"error": errors["ours"], "error_of_stock": errors["stock"], "error_of_eager": errors["eager"]}
        return {**told, "differs": not errors["ours"] <= usual}

    return Prepared(turns, finish=finish)


def _longer(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.is_floating_point() else tensor


def _step(
    model: torch.nn.Module,
    inputs: list[torch.Tensor],
    call: Loss,
    loss: Loss,
    training: bool,
    device: str,
    compiled: bool,
) -> tuple[Call, Call]:
    """What gives values to be compared, and what is timed: inference, or forward, loss, backward and SGD."""
    model, inputs = model.to(device), moved(inputs, device)
    compile_of: Any = partial(torch.compile, dynamic=False) if compiled else (lambda function: function)

    def losses(*inputs: torch.Tensor) -> torch.Tensor:
        return loss(call(model, *inputs), *inputs)

    def outputs(*inputs: torch.Tensor) -> torch.Tensor:
        return call(model, *inputs)

    ready, update = compile_of(losses if training else outputs), compile_of(sgd_step)

    def infer() -> torch.Tensor:
        with torch.no_grad():
            return ready(*inputs)

    if not training:
        return infer, infer
    learned = [parameter for parameter in model.parameters() if parameter.requires_grad]

    def gradients() -> list[torch.Tensor]:
        return list(torch.autograd.grad(ready(*inputs), learned, allow_unused=True))

    used = [place for place, gradient in enumerate(gradients()) if gradient is not None]
    changed = [learned[place].detach() for place in used]

    def train() -> None:
        given = gradients()
        with torch.no_grad():
            update(*changed, *(given[place] for place in used))

    return lambda: [gradients()[place] for place in used], train
