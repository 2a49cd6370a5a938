"""What a report says, in each of its forms."""

from __future__ import annotations

import html.parser
import json
from dataclasses import replace

import pytest

from inductor_npu.ascend.compilation import Compilation, Stage, compile_kernels
from inductor_npu.ascend.hivm import CubeFacts, Cycles, Finding
from inductor_npu.ascend.kernel import CollectedKernel, KernelSource, Launch, Origin, TensorArgument
from inductor_npu.ascend.lint import LintFinding
from inductor_npu.ascend.report import Refusal, advice
from inductor_npu.ascend.report.build import make_row
from inductor_npu.diagnostics.explanation.data import Arithmetic
from inductor_npu.support.units import (
    bytes_text,
    count_text,
    operations_text,
    plural,
    ratio_text,
    share_of,
    share_text,
)
from inductor_npu.target import get_target
from tests.ascend.lint.product_cases import PRODUCT_PAIRS
from tests.ascend.report.examples import ALL, COMPILED, CRASHED, ELEMENT, REFUSED, SCALAR, UNREAD, VECTOR, report, row


def tensor(*shape: int, strides: tuple[int, ...] | None = None, offset: int = 0, storage: int = 0, size: int = 10**6):
    strides = strides or tuple(int(s) for s in _contiguous(shape))
    return TensorArgument("float32", shape, strides, offset, storage, size)


def _contiguous(shape: tuple[int, ...]) -> list[int]:
    strides, step = [], 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= length
    return strides


def test_a_refused_kernel_has_the_compilers_words():
    source = KernelSource("k", "def k(): pass", {"x": "*fp32"}, {})
    kernel = CollectedKernel(source, Origin(("aten.add",), ("a.py:1: x",)), Launch((4, 1, 1), {"x": tensor(4)}), 2)
    compilation = Compilation(
        source.key, "Ascend910B3", None, None, None, Stage.ADAPTER, "no such op", True, None, 0.1, "crashes/k"
    )
    row = make_row(kernel, compilation, get_target("Ascend910B3"))
    assert row.verdict == "refused" and row.refusal == Refusal("adapter", "no such op", True, "crashes/k")
    assert (row.kernel, row.operators, row.lines, row.launches, row.grid) == (
        "k", ("aten.add",), ("a.py:1: x",), 2, (4, 1, 1),
    )  # fmt: skip
    unread = Compilation(source.key, "Ascend910B3", "", "", "what is this", None, "", False, None, 0.1)
    assert make_row(kernel, unread, get_target("Ascend910B3")).verdict == "unknown"


def test_what_costs_most_comes_first():
    assert [row.kernel for row in ALL.rows] == [
        "big_kernel", "odd_kernel", "new_kernel", "narrow_kernel", "slow_kernel", "fast_kernel",
    ]  # fmt: skip
    assert SCALAR.cost == 123456 and VECTOR.cost == 2700 and VECTOR.bound == "mte2" and REFUSED.cost is None


def test_totals_count_launches_and_say_when_one_is_not_known():
    assert report(VECTOR, SCALAR, REFUSED).total("bytes_moved") == 4 * 6000
    assert report(VECTOR, ELEMENT).total("bytes_moved") is None
    counts = {verdict: count for verdict, count in ALL.counts.items() if count}
    assert counts == {"refused": 2, "unknown": 1, "scalar": 1, "element DMA": 1, "vector": 1}


def test_numbers_have_units():
    assert [bytes_text(n) for n in (None, 0, 999, 1536, 98304, 5 * 2**20)] == [
        "-", "0 B", "999 B", "1.50 KiB", "96.0 KiB", "5.00 MiB",
    ]  # fmt: skip
    assert [count_text(n) for n in (None, 7, 1234, 5_600_000)] == ["-", "7", "1.23 k", "5.60 M"]
    assert (share_of(3, 3), share_of(1, 10**9), share_of(2, 3)) == ("100%", "0.1%", "66.7%")
    assert [operations_text(n) for n in (7, 5_600_000, 2 * 10**16)] == ["7 FLOP", "5.60 MFLOP", "20.0 PFLOP"]
    assert share_text(0.5) == "50%" and ratio_text(3, 2) == "1.50x" and ratio_text(None, 2) == "-"
    assert (plural(1, "launch"), plural(2, "launch"), plural(0, "kernel")) == ("1 launch", "2 launches", "0 kernels")


def test_the_table_has_every_column_and_what_to_write_instead():
    text = ALL.table(320)
    for word in (
        "train.py --lr <1 on Ascend910B3: 6 kernels (2 refused, 1 unknown, 1 scalar, 1 element DMA, 1 vector), 8 ",
        "fast_kernel  x 3", "aten.gelu", "model.py:12: y = F.gelu(x) < 3", "96.0 KiB", "50%", "2 doubled", "5.86 KiB",
        "least 3.91 KiB", "1.50x", "1.23 k", "900 MTE2", "123 k scalar", "line 1: def slow_kernel(x)",
        "ub overflow, requires 2",
        "saved in crashes/odd_kernel", "not measurements", "smaller tiles", "not checked  matmul_kernel",
        "line 7 of the final HIVM IR cannot be read",
    ):  # fmt: skip
        assert word in text, word


def test_json_has_a_schema_and_all_fields():
    data = json.loads(ALL.to_json())
    assert data["schema"] == 1 and data["target"] == "Ascend910B3" and data["summary"]["verdicts"]["refused"] == 2
    fast = data["kernels"][-1]
    assert fast["kernel"] == "fast_kernel" and fast["bound"] == "mte2" and fast["bytes_moved"] == 6000
    assert fast["findings"][0]["kind"] == "S1" and fast["cycles"]["mte2"] == 900 and fast["source"]
    assert data["kernels"][0]["refusal"]["stage"] == "bishengir" and data["omissions"][0]["kernel"] == "matmul_kernel"


class _Page(html.parser.HTMLParser):
    """Collects tags that load something, and checks that tags are closed in order."""

    VOID = {"meta", "br", "link", "img", "input"}

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag, attributes):
        names = dict(attributes)
        self.loads += [value for name, value in names.items() if name in ("src", "href") and not value.startswith("#")]
        if tag in ("script", "link", "img", "iframe"):
            self.loads.append(tag)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_the_page_is_whole_by_itself_and_escapes_what_users_wrote():
    text = ALL.to_html()
    page = _Page()
    page.feed(text)
    assert page.open == [] and page.loads == [] and "url(" not in text and "@import" not in text
    assert "train.py --lr &lt;1" in text and "F.gelu(x) &lt; 3" in text
    for words in ("6 kernels", "✕ refused", "▲ scalar", "◆ element DMA", "✓ vector", "bound by MTE2", "Kernel source"):
        assert words in text, words


@pytest.mark.parametrize("make", ["table", "to_html"])
def test_a_program_without_kernels_says_what_would_make_some(make: str):
    text = getattr(report(advice="Compile the model."), make)()
    assert "No kernel was launched on npu. Compile the model." in " ".join(text.split())


def test_there_is_something_to_write_instead_of_each_finding_that_costs():
    loop = "loop over single elements of i64 in Unified Buffer (addi)"
    flip = "flip_1d_float works element by element: a reversal has no vector instruction"
    for kind, what in (("SL", loop), ("EL", "load in bursts of 4 bytes"), ("HL", flip)):
        assert advice.for_finding(Finding(kind, what, 8))
    assert advice.for_finding(Finding("S1", "one element read", 1)) is None
    assert "int32" in advice.for_finding(Finding("SL", loop, 8))
    assert "smaller tiles" in advice.for_refusal(REFUSED.refusal) and "defect" in advice.for_refusal(CRASHED.refusal)
    assert UNREAD.refusal is None


def test_says_who_does_the_arithmetic():
    one = report(VECTOR, arithmetic=Arithmetic(98_200, 1_800, 0, (("convolution", 3),)))
    words = "98.2% of 100 kFLOP in kernels, 1.8% in the library: convolution (3)"
    assert f"arithmetic, a call of each graph: {words}" in one.table(320)
    assert words in one.to_html()
    assert json.loads(one.to_json())["summary"]["arithmetic"]["in_library"] == 1_800
    for nothing in (report(VECTOR), report(VECTOR, arithmetic=Arithmetic())):
        assert "a call of each graph" not in nothing.table(320) + nothing.to_html()


# What the lint adds

WRONG_ON_ASCEND = row(
    "masked_kernel",
    "vector",
    **COMPILED,
    cycles=VECTOR.cycles,
    source="def masked_kernel(x, n):\n    tl.store(x + i, v, mask=n > i)",
    lint=(LintFinding("N101", "mask of a store", "kernel.py", 2), LintFinding("N501", "maximum", "kernel.py", 2)),
)


def test_says_what_is_accepted_and_wrong_on_ascend():
    one = report(WRONG_ON_ASCEND)
    words = "N101 wrong: reversed mask: mask of a store, line 2: tl.store(x + i, v, mask=n > i)"
    for text in (one.table(1000), html.unescape(one.to_html())):
        assert words in text and "tl.store(y + i, v, mask=i < n)" in text
        assert "N501" not in text
    findings = json.loads(one.to_json())["kernels"][0]["lint"]
    assert [finding["severity"] for finding in findings] == ["wrong", "slow"]


def test_says_what_a_refused_kernel_is_refused_for():
    found = LintFinding("N201", "`other` is a tile", "kernel.py", 1)
    assert "N201 refused" in report(replace(CRASHED, lint=(found,))).table(1000)
    assert "N201" not in report(replace(VECTOR, lint=(found,))).table(1000)


CUBE = CubeFacts(
    vectors=True, workspace_bytes=262144, workspace_depth=4, rows_shared=False, l1_doubled=2, l0c_doubled=0
)
MIXED = row(
    "product_kernel",
    "mixed",
    **COMPILED,
    findings=(Finding("NS", "rows are not shared: both vector cores do everything", None),),
    cycles=Cycles(600, 200, 100, 10, 500, 300, 400, launch=1000),
    cube=CUBE,
    l1_bytes=393216,
    l0c_bytes=131072,
)


def test_a_kernel_with_a_cube_cores_part_shows_both_sides():
    shown = report(MIXED).table(320)
    for part in ("mixed", "rows are not shared", "L1 384 KiB", "L0C 128 KiB", "ws 256 KiB", "1.00 k in all"):
        assert part in shown, shown
    assert "50% cube, 20% vector" in " ".join(shown.split())
    assert "bound by" in shown
    assert "even number of rows" in shown
    (kernel,) = json.loads(report(MIXED).to_json())["kernels"]
    assert kernel["busy"] == {"cube": 0.5, "vector": 0.2}
    assert kernel["cube"]["workspace_bytes"] == 262144 and kernel["cube"]["rows_shared"] is False
    assert (kernel["cycles"]["mte1"], kernel["cycles"]["fix"], kernel["cycles"]["launch"]) == (300, 400, 1000)
    assert "workspace 256 KiB a core, 4 tiles" in report(MIXED).to_html()


def test_wrong_code_is_worse_than_any_other_verdict():
    wrong = row("wrong_kernel", "wrong code", findings=(Finding("WC", "an int32 product is requantised", None),))
    assert wrong.is_wrong and "store int32" in report(wrong).table(320)
    assert report(wrong, REFUSED).counts["wrong code"] == 1


@pytest.mark.ascend
@pytest.mark.parametrize(("rows", "verdict"), [(128, "cube"), (100, "wrong code")])
def test_a_tensor_descriptor_is_wrong_where_its_tensor_ends_within_a_tile(rows: int, verdict: str):
    source = PRODUCT_PAIRS["N112"].bad
    (compilation,) = compile_kernels([source], "Ascend910B3")
    memory = TensorArgument("float16", (rows, 64), (64, 1), 0, 0, rows * 128)
    launch = Launch((2, 1, 1), {"A": memory, "B": memory, "C": memory, "M": rows})
    made = make_row(CollectedKernel(source, Origin(), launch), compilation, get_target("Ascend910B3"))
    assert made.verdict == verdict
    assert ("a side of 100, tiles of 64" in str(made.findings)) is (verdict == "wrong code")
