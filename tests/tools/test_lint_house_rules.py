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
    "assignment onto a part of torch under a name": "from torch import a\nb = a.c\nb.d = 1\n",
    "an entry of a table of torch": "from torch._inductor import utils\nutils.table['a'] = 1\n",
    "an entry of a table of Triton that is taken out": "import sys\nt = sys.modules['triton.x'].y\ndel t['a']\n",
    "a list of torch that is extended": "from torch._inductor.utils import TYPES\nTYPES.append('npu')\n",
    "a variable of torch": "import os\nos.environ.setdefault('TORCH_WARM_POOL', '0')\n",
    "garbage collection": "import gc\ngc.set_threshold(1)\n",
    "an attribute behind a class's back": "object.__setattr__(x, 'a', 1)\n",
    "an object's own table": "x.__dict__['run'] = 1\n",
    "an object's class": "x.__class__ = Other\n",
    "a method that an attribute hides": "x.run = f  # type: ignore[method-assign]\n",
    "a lowering for all devices": "from torch._inductor import lowering\nlowering.register_lowering(op)(f)\n",
    "a handler that is faked": "V.set_interpreter_handler(x)\n",
    "the import system": "import sys\nsys.meta_path.insert(0, x)\n",
    "a long function": "def f():\n" + "    g()\n" * 60,
    "a long class": "class A:\n" + "    x = 1\n" * 300,
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
    "a variable of ours": "import os\nos.environ['INDUCTOR_NPU_CACHE'] = 'off'\n",
    "what a call of torch gives": "import torch\nx = torch.ones(3)\nx[0] = 1\n",
    "the kernel that is written": "from torch._inductor.virtualized import V\nV.kernel.axes.add(1)\nV.kernel.a = 1\n",
    "a long function with its reason": 'def f():\n    """Long, as it is."""\n' + "    g()\n" * 60,
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


def test_touches_in_the_table_are_allowed_where_it_says_so(tmp_path: Path) -> None:
    table = tmp_path / rules.TABLE
    table.parent.mkdir(parents=True)
    table.write_text("| File | Form |\n| --- | --- |\n| `garbage.py` | `gc.set_threshold` | why |\n")
    source = BAD["garbage collection"]
    assert findings(source, "inductor_npu/setup/garbage.py") == []
    assert len(findings(source)) == 1
    assert len(findings(source.replace("set_threshold(1)", "disable()"), "inductor_npu/setup/garbage.py")) == 1


def test_a_test_that_checks_nothing_is_found_and_one_that_calls_a_checking_helper_is_not() -> None:
    source = "def check(x):\n    assert x\ndef test_a():\n    f()\ndef test_b():\n    check(f())\n"

    assert findings(source, "tests/test_module.py") == ["test_a checks nothing"]
