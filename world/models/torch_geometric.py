"""PyTorch Geometric: its layers on a random graph."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from world.case import Built, stirred

NODES, EDGES, WIDTH, ATTRIBUTES, RELATIONS = 40, 160, 16, 8, 3


@dataclass(frozen=True)
class Graph:
    """x: NODES x WIDTH. index: 2 x EDGES, from and to. attributes: EDGES x ATTRIBUTES. kinds: a relation an edge.
    batch: the graph of a node. positions: NODES x 3.
    """

    x: torch.Tensor
    index: torch.Tensor
    attributes: torch.Tensor
    kinds: torch.Tensor
    batch: torch.Tensor
    positions: torch.Tensor

    @property
    def plain(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.x, self.index


def _graph() -> Graph:
    return Graph(
        torch.randn(NODES, WIDTH),
        torch.randint(0, NODES, (2, EDGES)),
        torch.randn(EDGES, ATTRIBUTES),
        torch.randint(0, RELATIONS, (EDGES,)),
        torch.arange(NODES) // 10,
        torch.randn(NODES, 3),
    )


def _mlp(inputs: int, outputs: int) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, 32), nn.ReLU(), nn.Linear(32, outputs))


class Pools(nn.Module):
    """The three pools over graphs."""

    def forward(self, x: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, ...]:
        layers = importlib.import_module("torch_geometric.nn")
        return tuple(getattr(layers, f"global_{kind}_pool")(x, batch) for kind in ("mean", "max", "add"))


def _degrees(graph: Graph) -> torch.Tensor:
    return torch.bincount(torch.bincount(graph.index[1], minlength=NODES))


# Layers that are made of (inputs, outputs) and called with nodes and edges.
SIMPLE = [
    *("GCNConv", "SAGEConv", "GraphConv", "ResGatedGraphConv", "FiLMConv", "LEConv"),
    *("ClusterGCNConv", "MFConv", "TAGConv", "GENConv", "FeaStConv"),
]
# Others: how a layer is made of the layers' module `g` and a graph, and what it is called with.
LAYERS: dict[str, Callable[[Any, Graph], tuple[nn.Module, tuple[Any, ...]]]] = {
    "SAGEConv max": lambda g, graph: (g.SAGEConv(WIDTH, 32, aggr="max"), graph.plain),
    "GATConv": lambda g, graph: (g.GATConv(WIDTH, 8, heads=4), graph.plain),
    "GATv2Conv": lambda g, graph: (g.GATv2Conv(WIDTH, 8, heads=4, edge_dim=8), (*graph.plain, graph.attributes)),
    "GINConv": lambda g, graph: (g.GINConv(_mlp(WIDTH, 32)), graph.plain),
    "GINEConv": lambda g, graph: (g.GINEConv(_mlp(WIDTH, 32), edge_dim=8), (*graph.plain, graph.attributes)),
    "ChebConv": lambda g, graph: (g.ChebConv(WIDTH, 32, 3), graph.plain),
    "TransformerConv": lambda g, graph: (g.TransformerConv(WIDTH, 8, heads=2), graph.plain),
    "EdgeConv": lambda g, graph: (g.EdgeConv(_mlp(2 * WIDTH, 32)), graph.plain),
    "NNConv": lambda g, graph: (g.NNConv(WIDTH, 8, _mlp(8, 128)), (*graph.plain, graph.attributes)),
    "RGCNConv": lambda g, graph: (g.RGCNConv(WIDTH, 32, RELATIONS), (*graph.plain, graph.kinds)),
    "FastRGCNConv": lambda g, graph: (g.FastRGCNConv(WIDTH, 32, RELATIONS), (*graph.plain, graph.kinds)),
    "RGATConv": lambda g, graph: (g.RGATConv(WIDTH, 32, RELATIONS), (*graph.plain, graph.kinds)),
    "PNAConv": lambda g, graph: (
        g.PNAConv(WIDTH, 32, ["mean", "min", "max", "std"], ["identity", "amplification"], _degrees(graph)),
        graph.plain,
    ),
    "ARMAConv": lambda g, graph: (g.ARMAConv(WIDTH, 32, num_stacks=2, num_layers=2), graph.plain),
    "SGConv": lambda g, graph: (g.SGConv(WIDTH, 32, K=2), graph.plain),
    "SSGConv": lambda g, graph: (g.SSGConv(WIDTH, 32, alpha=0.1, K=2), graph.plain),
    "APPNP": lambda g, graph: (g.APPNP(3, 0.1), graph.plain),
    "GatedGraphConv": lambda g, graph: (g.GatedGraphConv(WIDTH, 3), graph.plain),
    "SuperGATConv": lambda g, graph: (g.SuperGATConv(WIDTH, 8, heads=2), graph.plain),
    "CGConv": lambda g, graph: (g.CGConv(WIDTH, dim=8), (*graph.plain, graph.attributes)),
    "EGConv": lambda g, graph: (g.EGConv(WIDTH, 32), graph.plain),
    "GeneralConv": lambda g, graph: (g.GeneralConv(WIDTH, 32), graph.plain),
    "AntiSymmetricConv": lambda g, graph: (g.AntiSymmetricConv(WIDTH), graph.plain),
    "FAConv": lambda g, graph: (g.FAConv(WIDTH), (graph.x, graph.x.flip(0).clone(), graph.index)),
    "PointNetConv": lambda g, graph: (
        g.PointNetConv(_mlp(WIDTH + 3, 32), _mlp(32, 16)),
        (graph.x, graph.positions, graph.index),
    ),
    "PPFConv": lambda g, graph: (
        g.PPFConv(_mlp(WIDTH + 4, 32)),
        (graph.x, graph.positions, graph.positions.roll(1, 0).clone(), graph.index),
    ),
    "PointTransformerConv": lambda g, graph: (
        g.PointTransformerConv(WIDTH, 32),
        (graph.x, graph.positions, graph.index),
    ),
    "GMMConv": lambda g, graph: (g.GMMConv(WIDTH, 32, 8, 3), (*graph.plain, graph.attributes)),
    "GPSConv": lambda g, graph: (
        g.GPSConv(WIDTH, g.GINConv(_mlp(WIDTH, WIDTH)), heads=2),
        (*graph.plain, graph.batch),
    ),
    "GCN2Conv": lambda g, graph: (g.GCN2Conv(WIDTH, 0.1), (graph.x, graph.x.flip(0).clone(), graph.index)),
    "HypergraphConv": lambda g, graph: (
        g.HypergraphConv(WIDTH, 32),
        (graph.x, torch.stack([graph.index[0], graph.index[1] % 12])),
    ),
    "pools": lambda g, graph: (Pools(), (graph.x, graph.batch)),
    "TopKPooling": lambda g, graph: (g.TopKPooling(WIDTH, ratio=0.5), (*graph.plain, None, graph.batch)),
    "SAGPooling": lambda g, graph: (g.SAGPooling(WIDTH, ratio=0.5), (*graph.plain, None, graph.batch)),
    "GraphNorm": lambda g, graph: (g.GraphNorm(WIDTH), (graph.x, graph.batch)),
    "Set2Set": lambda g, graph: (g.aggr.Set2Set(WIDTH, 3), (graph.x, graph.batch)),
    "AttentionalAggregation": lambda g, graph: (
        g.aggr.AttentionalAggregation(_mlp(WIDTH, 1)),
        (graph.x, graph.batch),
    ),
    "GCN": lambda g, graph: (g.GCN(WIDTH, 32, 3, 5), graph.plain),
    "GAT": lambda g, graph: (g.GAT(WIDTH, 32, 3, 5, heads=2), graph.plain),
    "GIN": lambda g, graph: (g.GIN(WIDTH, 32, 3, 5, jk="cat"), graph.plain),
    "GraphSAGE": lambda g, graph: (g.GraphSAGE(WIDTH, 32, 3, 5), graph.plain),
    "SchNet": lambda g, graph: (
        g.SchNet(32, 32, 2, num_gaussians=16, interaction_graph=_AllPairs()),
        (torch.randint(1, 9, (NODES,)), graph.positions, graph.batch),
    ),
}


class _AllPairs(nn.Module):
    """An interaction graph for SchNet: all pairs of atoms of a molecule, with their distances."""

    def forward(self, positions: torch.Tensor, batch: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        index = ((batch[:, None] == batch) & ~torch.eye(len(batch), dtype=torch.bool, device=batch.device)).nonzero().T
        return index, (positions[index[0]] - positions[index[1]]).norm(dim=-1)


def members() -> list[str]:
    return sorted([*SIMPLE, *LAYERS])


def build(member: str) -> Built:
    layers, graph = importlib.import_module("torch_geometric.nn"), _graph()
    if member in SIMPLE:
        return Built(stirred(getattr(layers, member)(WIDTH, 32)), graph.plain)
    model, inputs = LAYERS[member](layers, graph)
    return Built(stirred(model), inputs)
