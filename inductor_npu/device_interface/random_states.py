"""Random operators in checkpoints: saves what they drew.

To recompute a random operator, PyTorch keeps the state of the generator, for a fixed list of devices
(run_and_save_rng_state of torch._prims.rng_prims); other devices are an error. What an operator draws is mostly a few
seeds, from which the same numbers are computed again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import Any

import torch


def saving_what_is_drawn(has_recomputable_rng_ops: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The partitioner's question, asked when what random operators of npu draw is marked to be saved."""

    @functools.wraps(has_recomputable_rng_ops)
    def asked_with_marks(fx_g: torch.fx.GraphModule) -> bool:
        from torch.utils.checkpoint import CheckpointPolicy

        for node in fx_g.graph.nodes:
            if node.meta.get("recompute") is not None and _draws(node):
                for value in (node, *node.users) if isinstance(node.meta["val"], tuple) else (node,):
                    value.meta["recompute"] = CheckpointPolicy.MUST_SAVE
        return has_recomputable_rng_ops(fx_g)

    return asked_with_marks


def _draws(node: torch.fx.Node) -> bool:
    """Whether `node` draws random numbers of npu."""
    is_random = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    return is_random and any(tensor.device.type == "npu" for tensor in _tensors(node.meta["val"]))


def _tensors(value: Any) -> Iterator[torch.Tensor]:
    return (each for each in torch.utils._pytree.tree_leaves(value) if isinstance(each, torch.Tensor))
