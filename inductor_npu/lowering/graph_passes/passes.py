"""The passes over a graph for `npu`, in the order in which they run, and the one place that runs them.

Inductor calls `NpuGraphPasses` through its own hook (`register_backend_for_device(device_custom_pass=...)`): for each
graph, and each graph inside it, that has a tensor on `npu`, after its own passes and those of the user. Graphs of other
devices never get here.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch._inductor.custom_graph_pass import CustomGraphModulePass
from torch._inductor.utils import get_donated_idxs
from torch.fx.passes.graph_transform_observer import GraphTransformObserver

from inductor_npu import config, identity
from inductor_npu.codegen.scheduling import choices
from inductor_npu.errors import UnknownGraphPassError
from inductor_npu.lowering.graph_passes.attention_masks import repeated_masks
from inductor_npu.lowering.graph_passes.pooling import wide_pools
from inductor_npu.lowering.graph_passes.products import padded_products
from inductor_npu.lowering.graph_passes.required import (
    lengths_of_one,
    narrow_accumulation,
    overlapping_writes,
    overwritten_sources,
    saved_numbers,
    size_conditions,
    without_templates,
    written_concatenations,
)
from inductor_npu.support.optional_steps import Kind, optional_step

# What decides the rewritten graph, as files and folders of the package.
_SOURCES = ("lowering/graph_passes",)


@dataclass(eq=False)
class GraphPass:
    """One rewrite of a graph. `apply` takes the graph and returns how often it rewrote something.

    optional: whether it may be switched off; a pass without which a graph does not compile, or computes
    something else, may not.
    """

    name: str
    reason: str
    apply: Callable[[torch.fx.Graph], int]
    optional: bool = True

    def __post_init__(self) -> None:
        if self.optional:
            self.apply = optional_step(Kind.GRAPH_PASS, self.name)(self.apply)


PASSES: tuple[GraphPass, ...] = (
    # First, because the others rewrite operators that it makes.
    GraphPass(
        name="without_templates",
        reason="what has no kernel but a template's is made of plain operators where templates are off",
        apply=without_templates.apply,
        optional=False,
    ),
    GraphPass(
        name="repeated_masks",
        reason="masks of attention that every layer makes of constants of its own are one",
        apply=repeated_masks.apply,
    ),
    GraphPass(
        name="padded_products",
        reason="matrices get rows that begin where the library's quick kernels want them, with zeros that are cut off",
        apply=padded_products.apply,
    ),
    GraphPass(
        name="wide_pools",
        reason="the greatest of a window of many elements is found along one axis after the other",
        apply=wide_pools.apply,
    ),
    GraphPass(
        name="overlapping_writes",
        reason="values and indices that lie in the tensor which they are written to are read before it changes",
        apply=overlapping_writes.apply,
        optional=False,
    ),
    GraphPass(
        name="written_concatenations",
        reason="a concatenation that is written in place does not lie where others read its parts",
        apply=written_concatenations.apply,
        optional=False,
    ),
    GraphPass(
        name="overwritten_sources",
        reason="an argument that is copied to another one after it was written is copied before",
        apply=overwritten_sources.apply,
        optional=False,
    ),
    GraphPass(
        name="lengths_of_one",
        reason="axes of one element, of which only a guard knows, have a length that Inductor reads as 1",
        apply=lengths_of_one.apply,
        optional=False,
    ),
    GraphPass(
        name="size_conditions",
        reason="combined conditions on sizes, which Inductor cannot take for numbers, become comparisons, which it can",
        apply=size_conditions.apply,
        optional=False,
    ),
    GraphPass(
        name="saved_numbers",
        reason="what a captured graph saves of the CPU's numbers stays on the CPU, where its backward graph reads it",
        apply=saved_numbers.apply,
        optional=False,
    ),
    # Last, because nothing may add up narrow integers after it.
    GraphPass(
        name="narrow_accumulation",
        reason="Triton's atomic addition takes no integers of 8 and 16 bits",
        apply=narrow_accumulation.apply,
        optional=False,
    ),
)


def switched_on() -> tuple[GraphPass, ...]:
    """The passes that `inductor_npu.config.graph_passes` names, in the order of PASSES, and those that have to run.

    Raises UnknownGraphPassError for a name that is not there.
    """
    wanted = config.graph_passes.strip()
    if wanted == "all":
        return PASSES
    names = {name.strip() for name in wanted.split(",")} - {"", "none"}
    optional = [each.name for each in PASSES if each.optional]
    for name in sorted(names.difference(optional)):
        raise UnknownGraphPassError(name=name, known=", ".join(optional))
    return tuple(each for each in PASSES if each.name in names or not each.optional)


class NpuGraphPasses(CustomGraphModulePass):
    """Runs the passes that are switched on. Each is known to Inductor by its name with `npu_` before it: in
    TORCHINDUCTOR_DISABLED_PASSES, in its compiler bisector, and in its record of times.
    """

    def __call__(self, gm: torch.fx.GraphModule) -> None:
        choices.correct_choices()  # nothing else of ours is called for each graph before its loops are made
        for each in switched_on():
            GraphTransformObserver(gm, f"npu_{each.name}", subsystem="post_grad_passes").apply_graph_pass(each.apply)

    def uuid(self) -> str:
        """What stands for these passes in the key of Inductor's cache; which of them are on is in it with the knobs.
        Which tensors AOTAutograd donates, which decides what the generated modules overwrite and copy, is in no other
        key of a graph.
        """
        return f"{identity.source_hash(_SOURCES)}, donated: {get_donated_idxs()}"
