"""The libraries whose programs are cases: each is a module with `members()` and `build(member)`."""

from __future__ import annotations

import functools
import importlib
import importlib.util
from types import ModuleType

from world.case import Built, names_of
from world.models import torchvision

# The library's name in names of cases: our module, and the package that has to be installed.
LIBRARIES = {
    "own": ("world.own", "torch"),
    "transformers": ("world.models.transformers", "transformers"),
    "timm": ("world.models.timm", "timm"),
    "torchvision": ("world.models.torchvision", "torchvision"),
    "torch_geometric": ("world.models.torch_geometric", "torch_geometric"),
    "diffusers": ("world.models.diffusers", "diffusers"),
    "peft": ("world.models.peft", "peft"),
    "sentence_transformers": ("world.models.sentence_transformers", "sentence_transformers"),
    "einops": ("world.models.einops", "einops"),
}
MODELS = tuple(LIBRARIES)
LIBRARIES["kernelbench"] = ("world.kernelbench", "torch")
LIBRARIES["inductor"] = ("world.inductor_tests", "torch")


def missing(library: str) -> str:
    """The package that has to be installed for the library's cases, "" if it is there."""
    package = LIBRARIES[library][1]
    return "" if importlib.util.find_spec(package) else package


def case_names(library: str) -> list[str]:
    """The names of the library's cases."""
    members = _module(library).members()
    return [f"{library}/{member}" for member in members] if library not in MODELS else list(names_of(library, members))


def build(name: str) -> Built:
    """The model and the inputs of the case `library/member`. Raises what the library raises."""
    library, _, member = name.partition("/")
    return _module(library).build(member)


@functools.cache
def _module(library: str) -> ModuleType:
    if library != "own":
        torchvision.stand_in()  # before other libraries look for it
    return importlib.import_module(LIBRARIES[library][0])
