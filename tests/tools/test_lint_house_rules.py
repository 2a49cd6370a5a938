"""The house rules find what they are for, and leave good code alone."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tools import lint_house_rules as rules

BAD = {
    "assignment onto torch": "import torch\ntorch.float8 = 1\n",
    "assignment onto something of torch": "from torch._inductor import utils as u\nu.table['a'].b = 1\n",
    "setattr onto torch": "import torch\nsetattr(torch, 'npu', 1)\n",
    "silent handler": "try:\n    f()\nexcept Exception:\n    pass\n",
    "bare except": "try:\n    f()\nexcept:\n    report()\n",
    "suppressing everything": "import contextlib\nwith contextlib.suppress(Exception):\n    f()\n",
    "machine path": "path = '/ho" + "me/someone/data'\n",
    "long file": "x = 1\n" * 601,
    "long function": "def f():\n" + "    x = 1\n" * 120,
}

GOOD = {
    "assignment onto our own object": "import torch\nclass A: ...\na = A()\na.dtype = torch.float32\n",
    "a public knob": "from triton import knobs\nknobs.cache.manager_class = None\n",
    "a field of the graph that is compiled": "from torch._inductor.virtualized import V\nV.graph.x = 'a reason'\n",
    "a handler that names its exception": "try:\n    f()\nexcept KeyError:\n    pass\n",
    "an address with slashes": "'https://example.org/a/optimal/b'\n",
}


def findings(source: str, name: str = "inductor_npu/module.py", root: Path | None = None) -> list[str]:
    path = (root or rules.ROOT) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(source)
    tree = ast.parse(source)
    return [message for _, message in rules._check(path, tree, rules._functions_that_check([tree]))]


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "ROOT", tmp_path)


@pytest.mark.parametrize("source", BAD.values(), ids=BAD)
def test_finds(source: str) -> None:
    assert len(findings(source)) == 1


@pytest.mark.parametrize("source", GOOD.values(), ids=GOOD)
def test_leaves_alone(source: str) -> None:
    assert findings(source) == []


def test_patches_are_allowed_in_compat_only() -> None:
    assert findings(BAD["assignment onto torch"], rules.MAY_PATCH) == []


def test_a_test_that_checks_nothing_is_found_and_one_that_calls_a_checking_helper_is_not() -> None:
    source = "def check(x):\n    assert x\ndef test_a():\n    f()\ndef test_b():\n    check(f())\n"

    assert findings(source, "tests/test_module.py") == ["test_a checks nothing"]
