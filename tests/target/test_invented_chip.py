"""Another chip is one `NpuTarget`: programs and models compiled for one that nobody makes have right values."""

from __future__ import annotations

import pytest

from models import zoo
from tests.processes import run_python

pytestmark = pytest.mark.compiled


def compiled_for_the_invented_chip(*names: str) -> list[str]:
    """What `tests.target.invented_chip` says of `names`: those of which all values are right."""
    code = f"from tests.target import invented_chip; invented_chip.main({list(names)!r})"
    return run_python(code, timeout=600, INDUCTOR_NPU_TARGET="Invented6", INDUCTOR_NPU_STRICT="1").lines()


@pytest.mark.slow
def test_golden_programs() -> None:
    assert compiled_for_the_invented_chip("golden") == ["golden"]


@pytest.mark.slow
@pytest.mark.parametrize("model", zoo.MODELS)
def test_models(model: str) -> None:
    assert compiled_for_the_invented_chip(model) == [model]
