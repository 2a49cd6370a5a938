"""The result of running a program: its kernels, what could not be collected, and how it used the device."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path

from inductor_npu.ascend import kernel
from inductor_npu.ascend.kernel import CollectedKernel, Origin
from inductor_npu.diagnostics.explanation.data import Arithmetic

_FILE = "program.json"


@dataclass(frozen=True)
class Omission:
    """A kernel of the program that is not among the collected ones, and why; operators that run in eager because their
    kernel does not compile for the embedded NPU.
    """

    kernel: str
    origin: Origin
    reason: str


@dataclass(frozen=True)
class Activity:
    """What the program did, to say why it has no kernels. `graphs` counts what torch.compile made, for any device."""

    used_npu: bool = False
    graphs: int = 0


@dataclass(frozen=True)
class Collection:
    """The kernels of one program, in the order of their first launch. `arithmetic` is that of one call of each graph;
    None where the program was killed.
    """

    kernels: list[CollectedKernel] = field(default_factory=list)
    omissions: list[Omission] = field(default_factory=list)
    activity: Activity = Activity()
    arithmetic: Arithmetic | None = None

    def save(self, folder: Path) -> None:
        """Writes kernels.json and program.json into `folder`; a reader never sees one half written."""
        scratch = folder / "unfinished"
        scratch.mkdir(exist_ok=True)
        kernel.save(self.kernels, scratch)
        rest = {
            "omissions": [asdict(omission) for omission in self.omissions],
            "activity": asdict(self.activity),
            "arithmetic": None if self.arithmetic is None else asdict(self.arithmetic),
        }
        (scratch / _FILE).write_text(json.dumps(rest, indent=1))
        for path in scratch.iterdir():
            path.replace(folder / path.name)
        scratch.rmdir()

    @classmethod
    def load(cls, folder: Path) -> Collection:
        """What `save` wrote last; an empty collection if the program ended before it could."""
        if not (folder / _FILE).exists():
            return cls()
        rest = json.loads((folder / _FILE).read_text())
        omissions = [
            Omission(entry["kernel"], Origin(*map(tuple, entry["origin"].values())), entry["reason"])
            for entry in rest["omissions"]
        ]
        arithmetic = rest["arithmetic"]
        if arithmetic is not None:
            arithmetic = Arithmetic(**{**arithmetic, "elsewhere": tuple(map(tuple, arithmetic["elsewhere"]))})
        return cls(kernel.load(folder), omissions, Activity(**rest["activity"]), arithmetic)

    def advice(self) -> str:
        """Why there are no kernels, and what would make some."""
        if not self.activity.used_npu:
            return (
                "It put no tensor on the device npu. Move model and inputs there, model.to('npu') and x.to('npu'), and "
                "compile the model, model = torch.compile(model)."
            )
        if not self.activity.graphs:
            return (
                "It used the device npu in eager only, which has no kernels to check. Compile the model, "
                "model = torch.compile(model), before it is called."
            )
        return (
            "It compiled graphs, and none has a kernel for npu: its inputs were on another device, or all of it is "
            "matrix products and copies, which call operators of the device."
        )
