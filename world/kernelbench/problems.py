"""Finds and loads KernelBench's problems."""

from __future__ import annotations

import ast
import os
import re
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import nn

FOLDER_VARIABLE = "KERNELBENCH"
FOLDER = Path("build/kernelbench")
LEVELS = (1, 2, 3)
SEED = 42
# What a name in a problem, "" for a number in get_inputs or get_init_inputs, and its value become.
Rewrite = Callable[[str, Any], Any]


def names() -> list[str]:
    """All problems, by level and number. Raises FileNotFoundError."""
    root = _root()
    found = [path for level in LEVELS for path in (root / f"level{level}").glob("*.py")]
    found.sort(key=lambda path: (path.parent.name, int(path.name.partition("_")[0])))
    return [f"{path.parent.name}/{path.stem}" for path in found]


def path_of(name: str) -> Path:
    return _root() / f"{name}.py"


def _root() -> Path:
    """The folder with level1 to level3. Raises FileNotFoundError that says how to get it."""
    given = Path(os.environ.get(FOLDER_VARIABLE, FOLDER))
    for folder in (given, given / "KernelBench", given / "KernelBench" / "KernelBench"):
        if (folder / "level1").is_dir():
            return folder
    raise FileNotFoundError(
        f"no KernelBench in {given}: clone the public repository ScalingIntelligence/KernelBench there, or name its "
        f"folder by {FOLDER_VARIABLE}"
    )


def load(path: Path, rewrite: Rewrite = lambda name, value: value) -> types.ModuleType:
    """The problem's module, its numbers rewritten: those that names are given at its top, and those in get_inputs and
    get_init_inputs. Line numbers and the file's name stay, so that errors name them.
    """
    tree = ast.parse(path.read_text())
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            statement.value = _Constants(rewrite, statement.targets[0].id).visit(statement.value)
        elif isinstance(statement, ast.FunctionDef) and statement.name in ("get_inputs", "get_init_inputs"):
            statement.body = [_Constants(rewrite, "").visit(line) for line in statement.body]
    module = types.ModuleType("problem_" + re.sub(r"\W", "_", f"{path.parent.name}_{path.stem}"))
    module.__file__ = str(path)
    exec(compile(ast.fix_missing_locations(tree), str(path), "exec"), module.__dict__)
    return module


class _Constants(ast.NodeTransformer):
    def __init__(self, rewrite: Rewrite, name: str) -> None:
        self.rewrite, self.name = rewrite, name

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.copy_location(ast.Constant(self.rewrite(self.name, node.value)), node)


def model_of(module: Any) -> nn.Module:
    """The problem's model; the same weights in every process."""
    torch.manual_seed(SEED)
    return module.Model(*module.get_init_inputs())


def inputs_of(module: Any) -> list[Any]:
    """The problem's inputs; the same values in every process."""
    torch.manual_seed(SEED)
    return list(module.get_inputs())
