"""Whether the embedded NPU's check of on-chip memory says of a kernel with dots what Ascend's compiler says."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from inductor_npu.ascend.compilation import Compilation, compile_kernels
from inductor_npu.simulator.triton_backend.ttir import budget, parser
from inductor_npu.simulator.triton_backend.ttir.passes import simplify
from inductor_npu.target import NpuTarget, get_target

from .form import Form

# How the compiler names the memories that it refuses a kernel for, and how Footprint does.
MEMORIES = {"ub": "unified_buffer", "cbuf": "l1", "cc": "l0c"}


@dataclass(frozen=True)
class Trial:
    """One form with one choice of blocks: bytes that we count, by memory, and which of them do not fit; the memory that
    the compiler refuses it for ("" where it accepts it) and the bytes that it then requires.
    """

    group: str
    name: str
    blocks: tuple[int, ...]
    ours: dict[str, int]
    too_small: tuple[str, ...]
    refused_for: str
    required: int

    @property
    def agrees(self) -> bool:
        return bool(self.too_small) == bool(self.refused_for)

    @property
    def words(self) -> str:
        """`128x256x64: ours ub 221184, theirs fits`."""
        blocks = "x".join(map(str, self.blocks))
        ours = " ".join(f"{memory} {self.ours[memory]}" for memory in self.too_small) or "fits"
        return f"{blocks}: ours {ours}, theirs {f'{self.refused_for} {self.required}' if self.refused_for else 'fits'}"


def compare(forms: Sequence[Form], target: str, jobs: int) -> tuple[list[Trial], list[str]]:
    """Compiles each form with each of its block sizes. Also returns what is refused for another reason than memory."""
    chip = get_target(target)
    choices = [(form, sizes) for form in forms for sizes in form.blocks]
    compiled = compile_kernels([form.source(sizes) for form, sizes in choices], target, jobs=jobs)
    trials, others = [], []
    for (form, sizes), compilation in zip(choices, compiled, strict=True):
        trial = _trial(form, sizes, compilation, chip)
        if trial is None:
            others.append(f"{form.name} {sizes}: {compilation.message}")
        else:
            trials.append(trial)
    return trials, others


def _trial(form: Form, sizes: tuple[int, ...], compilation: Compilation, chip: NpuTarget) -> Trial | None:
    refused_for = next((memory for memory in MEMORIES if f"{memory} overflow" in compilation.message), "")
    if compilation.ttir is None or (compilation.hivm is None and not refused_for):
        return None
    module = parser.parse(compilation.ttir)
    simplify(module)
    footprint = budget.footprint(module.kernel, chip)
    ours = {memory: int(getattr(footprint, field)) for memory, field in MEMORIES.items()}
    too_small = tuple(memory for memory, field in MEMORIES.items() if ours[memory] > getattr(chip, field))
    required = (compilation.required_bits or 0) // 8
    return Trial(form.group, form.name, sizes, ours, too_small, refused_for, required)


def agreement(trials: Sequence[Trial]) -> float:
    """The share of trials in which both say the same."""
    return sum(trial.agrees for trial in trials) / len(trials)


def path_of(target: str) -> Path:
    return Path(__file__).parents[1] / "tables" / f"dots-{target}.tsv"


def write(target: str, trials: Iterable[Trial]) -> None:
    """One line a form: how many of its trials agree, and the ones that do not."""
    own: dict[tuple[str, str], list[Trial]] = {}
    for trial in trials:
        own.setdefault((trial.group, trial.name), []).append(trial)
    with path_of(target).open("w", newline="") as file:
        writer = csv.writer(file, delimiter="\t", lineterminator="\n")
        writer.writerow(("group", "form", "agree", "of", "disagree"))
        for (group, name), tried in own.items():
            words = "; ".join(trial.words for trial in tried if not trial.agrees)
            writer.writerow((group, name, sum(trial.agrees for trial in tried), len(tried), words))
