"""Whole models: transformers forward and backward, a step of each optimizer, the examples' own networks."""

from __future__ import annotations

from collections.abc import Callable

import torch

from corpus.programs.program import Program, differentiate, family
from models import zoo

OPTIMIZERS: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
    "sgd momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-4),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=1e-3),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=1e-3),
    "rmsprop": lambda parameters: torch.optim.RMSprop(parameters, lr=1e-3),
    "adagrad": lambda parameters: torch.optim.Adagrad(parameters, lr=1e-3),
}


def _model(name: str) -> Program:
    def run() -> None:
        model, inputs, call = zoo.build(name)
        model, inputs = model.to("npu"), tuple(tensor.to("npu") for tensor in inputs)
        compiled = torch.compile(model)
        with torch.no_grad():
            call(compiled, *inputs)
        differentiate(call(compiled, *inputs).float().mean())

    return Program(name, run)


def _optimizer(name: str) -> Program:
    def run() -> None:
        torch.manual_seed(0)
        parameters = [torch.nn.Parameter(torch.randn(shape, device="npu")) for shape in ((64, 300), (300,), (10, 64))]
        optimizer = OPTIMIZERS[name](parameters)
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        torch.compile(optimizer.step)()

    return Program(name, run)


def _digits() -> None:
    from examples.digits import DigitNet

    torch.manual_seed(0)
    net = DigitNet().to("npu")
    images, labels = torch.rand(64, 1, 8, 8).to("npu"), torch.randint(10, (64,)).to("npu")
    differentiate(torch.compile(lambda x, y: torch.nn.functional.cross_entropy(net(x), y))(images, labels))
    net.eval()
    with torch.no_grad():
        torch.compile(net)(images)


def _embeddings() -> None:
    from examples.embeddings import SentenceEncoder, model_folder

    encoder = torch.compile(SentenceEncoder(model_folder()).to("npu"))
    ids, mask = torch.randint(2, 1000, (8, 24)).to("npu"), torch.ones(8, 24, dtype=torch.int64).to("npu")
    with torch.no_grad():
        encoder(ids, mask)


PROGRAMS = [
    *family("model", [_model(name) for name in zoo.MODELS]),
    *family("optimizer", [_optimizer(name) for name in OPTIMIZERS]),
    *family("example", [Program("embeddings", _embeddings), Program("digits", _digits)]),
]
