"""The parts of a compiled graph, captured. Inductor cuts a graph around operators that cannot be captured; a graph
without such operators is one part.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Sequence
from typing import Any

from inductor_npu.runtime.graph_capture.captured_function import CapturedFunction
from inductor_npu.runtime.graph_capture.statistics import statistics_of

_graphs = itertools.count()


def name_of_graph(*, is_backward: bool, is_inference: bool) -> str:
    """A new name, under which the statistics of a graph are kept."""
    return f"{'backward' if is_backward else 'inference' if is_inference else 'forward'} {next(_graphs)}"


def capture_parts(runner: Any, graph: str, writes: Sequence[Collection[int] | None]) -> None:
    """Captures the parts of `runner`, the object whose method a module of Inductor's calls. `writes`: which of its
    arguments each part may write (None: any).
    """
    count = len(runner.partitions)
    names = [graph] if count == 1 else [f"{graph}.{index}" for index in range(count)]
    if len(writes) != count:
        writes = [None] * count
    runner.partitions = [
        CapturedFunction(part, None, statistics=statistics_of(name), written=written)
        for name, part, written in zip(names, runner.partitions, writes, strict=True)
    ]


def written_by_parts(partition_maps: Sequence[Any] | None, written: Collection[int]) -> list[frozenset[int]]:
    """Which of its arguments each part may write. `partition_maps`: Inductor's account of each part's arguments, as
    indices among those of the graph, of which it writes `written`; None: a result of what ran before, whose memory the
    part may use again for its own results.
    """
    return [
        frozenset(index for index, outer in enumerate(each.input_index_mapping) if outer is None or outer in written)
        for each in partition_maps or ()
    ]
