"""Networks of our own, written in the style of users: kinds that the libraries lack. Each module has a table NETWORKS
of functions that make a model and its inputs.
"""

from __future__ import annotations

from world.case import Built, stirred
from world.own import generative, language, learning, points_and_tables, science, vision

NETWORKS = {
    name: make
    for module in (generative, language, learning, points_and_tables, science, vision)
    for name, make in module.NETWORKS.items()
}


def members() -> list[str]:
    return sorted(NETWORKS)


def build(member: str) -> Built:
    model, inputs = NETWORKS[member]()
    return Built(stirred(model), inputs)
