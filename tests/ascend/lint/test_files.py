"""`inductor-npu lint FILE`: what of a file is run, what is assumed of its kernels, and what it says of bad input."""

from __future__ import annotations

import json
import re
import textwrap
from pathlib import Path

import pytest
from typer.testing import CliRunner

from inductor_npu.ascend.lint import LintedKernel, Severity, lint_file
from inductor_npu.cli import app
from inductor_npu.errors import LintFileError

HEAD = "import triton\nimport triton.language as tl\n"
GOOD = """
@triton.jit
def add(x_ptr, y_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK_SIZE + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    tl.store(out_ptr + offsets, tl.load(x_ptr + offsets, mask=mask) + tl.load(y_ptr + offsets, mask=mask), mask=mask)
"""
BAD = GOOD.replace("offsets < n_elements", "n_elements > offsets")


def write(folder: Path, text: str, name: str = "kernels.py") -> Path:
    path = folder / name
    path.write_text(HEAD + textwrap.dedent(text))
    return path


def only(path: Path, **given: str) -> LintedKernel:
    (kernel,) = lint_file(path, given)
    return kernel


def test_says_what_it_assumes(tmp_path: Path):
    kernel = only(write(tmp_path, GOOD))
    assert kernel.failure is None and not kernel.findings
    assert kernel.assumptions == (
        "x_ptr: *fp32",
        "y_ptr: *fp32",
        "out_ptr: *fp32",
        "n_elements: i32",
        "BLOCK_SIZE = 1024 (assumed)",
    )


def test_given_types_are_no_assumptions(tmp_path: Path):
    path = write(tmp_path, GOOD)
    types = {"x_ptr": "*i64", "y_ptr": "*i64", "out_ptr": "*i64", "n_elements": "i32", "BLOCK_SIZE": "256"}
    kernel = only(path, **types)
    assert kernel.assumptions == ()
    assert [finding.rule for finding in kernel.findings] == ["N308"]


def test_the_file_is_not_run(tmp_path: Path):
    """Of its top level only the imports, constants and functions that a kernel needs are."""
    text = """
    import no_such_module
    from somewhere import something
    print(1 / 0)
    LIMIT = 1 / 0
    WIDTH: tl.constexpr = tl.constexpr(64)
    HALF = tl.constexpr(WIDTH // 2)
    raise SystemExit("this file was run")

    @something.decorated
    @triton.autotune(configs=[triton.Config({"TILE": 512}, num_warps=4), triton.Config({"TILE": 64})], key=LIMIT)
    @triton.jit
    def kernel(x, y, TILE: tl.constexpr):
        i = tl.arange(0, TILE)
        tl.store(y + i // HALF, tl.load(x + i))
    """
    kernel = only(write(tmp_path, text))
    assert kernel.failure is None, kernel.failure
    assert "TILE = 512 (its first configuration)" in kernel.assumptions
    (finding,) = kernel.findings
    assert finding.rule == "N301"
    assert Path(str(finding.file)).read_text().splitlines()[int(finding.line or 0) - 1].strip().startswith("tl.store")


def test_helpers_are_linted_in_their_kernels(tmp_path: Path):
    """At the line of the kernel that calls them."""
    text = """
    @triton.jit
    def read(source, i, n):
        return tl.load(source + i, mask=n > i)

    @triton.jit
    def kernel(a, b, n):
        i = tl.arange(0, 128)
        tl.store(b + i, read(a, i, n), mask=i < n)
    """
    kernel = only(write(tmp_path, text))
    assert kernel.name == "kernel"
    assert "a: *fp32" in kernel.assumptions
    (finding,) = kernel.findings
    assert (finding.rule, finding.line) == ("N101", 11)


@pytest.mark.parametrize(
    ("parameters", "body", "expected"),
    [
        ("x, index, y", "tl.store(y + i, tl.load(x + tl.load(index + i)))", "index: *i32"),
        ("x, z, y", "tl.store(y + i, tl.load(x + i) // tl.load(z + i))", "z: *i32"),
        ("x, y, R: tl.constexpr", "tl.store(y + i, tl.cumsum(tl.load(x + i), 0, reverse=R))", "R = False (assumed)"),
        ("x, y, eps", "tl.store(y + i, tl.load(x + i) + eps)", "eps: fp32"),
        ("x, y, k: float", "tl.store(y + i, tl.load(x + i) + k)", None),
        ("x, y, k=0.5", "tl.store(y + i, tl.load(x + i) + k)", "k: fp32"),
        (
            "x, y, HAS_BIAS: tl.constexpr",
            "tl.store(y + i, tl.load(x + i), mask=i < 3 if HAS_BIAS else None)",
            "HAS_BIAS = True (assumed)",
        ),
        ("x, y, T: tl.constexpr", "tl.store(y + i, tl.load(x + i).to(T))", "T = tl.float32 (assumed)"),
        (
            "x, y, A: tl.constexpr",
            'tl.store(y + i, tl.load(x + i) * (2.0 if A == "relu" else 1.0))',
            "A = 'relu' (assumed)",
        ),
        ("x, y, D: tl.constexpr = 4", "tl.store(y + i, tl.load(x + i) * D)", None),
    ],
)
def test_assumptions_from_use(parameters: str, body: str, expected: str | None, tmp_path: Path):
    text = f"@triton.jit\ndef kernel({parameters}):\n    i = tl.arange(0, 64)\n    {body}\n"
    kernel = only(write(tmp_path, text))
    assert kernel.failure is None, kernel.failure
    others = [text for text in kernel.assumptions if text not in ("x: *fp32", "x: *i32", "y: *fp32")]
    assert others == ([expected] if expected else [])


def test_kernels_that_are_run_wrong_are_found():
    """The kernels of which `--run` shows that Ascend's compiler gets them wrong, and those that it gets right."""
    path = Path(__file__).parents[1] / "execute" / "kernels.py"
    found = {
        kernel.name: {finding.rule for finding in kernel.findings if finding.about.severity is Severity.WRONG}
        for kernel in lint_file(path)
    }
    assert {name: rules for name, rules in found.items() if rules} == {
        "divide": {"N105"},
        "reversed_mask": {"N101"},
        "data_dependent_mask": {"N102"},
        "random": {"N104"},
        "shift_unsigned": {"N106"},
    }


def test_default_template_has_no_findings(tmp_path: Path):
    """A loop over tiles with an index for each axis, masks of intervals, identities for what lies outside."""
    text = """
    @triton.jit
    def softmax(x, y, rows, columns, x_stride, y_stride, TR: tl.constexpr, TC: tl.constexpr):
        row_tiles = tl.cdiv(rows, TR)
        for tile in range(tl.program_id(0), row_tiles, tl.num_programs(0)):
            r = (tile % row_tiles) * TR + tl.arange(0, TR)
            c = tl.arange(0, TC)
            m = (r[:, None] < rows) & (c[None, :] < columns)
            v = tl.load(x + r[:, None] * x_stride + c[None, :], mask=m, other=-float("inf"))
            e = tl.exp(v - tl.max(v, 1)[:, None])
            tl.store(y + r[:, None] * y_stride + c[None, :], e / tl.sum(e, 1)[:, None], mask=m)

    @triton.jit
    def matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP_M: tl.constexpr):
        group = tl.program_id(0) // (GROUP_M * tl.cdiv(N, BN))
        m = (group * GROUP_M + tl.program_id(0) % GROUP_M) * BM + tl.arange(0, BM)
        n = (tl.program_id(0) % tl.cdiv(N, BN)) * BN + tl.arange(0, BN)
        k = tl.arange(0, BK)
        left = a + m[:, None] * K + k[None, :]
        right = b + k[:, None] * N + n[None, :]
        total = tl.zeros((BM, BN), tl.float32)
        for first in range(0, K, BK):
            u = tl.load(left, mask=(m[:, None] < M) & (first + k[None, :] < K), other=0.0)
            w = tl.load(right, mask=(first + k[:, None] < K) & (n[None, :] < N), other=0.0)
            total = tl.dot(u, w, total)
            left += BK
            right += BK * N
        tl.store(c + m[:, None] * N + n[None, :], total, mask=(m[:, None] < M) & (n[None, :] < N))
    """
    for kernel in lint_file(write(tmp_path, text)):
        assert kernel.failure is None, kernel.failure
        assert kernel.findings == ()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("def broken(:\n", "it is no Python"),
        ("x = 1\n", "it has no @triton.jit function"),
        ("@triton.jit\ndef helper(a):\n    return a + 1\n", "all of its @triton.jit functions return values"),
        ("def make():\n    @triton.jit\n    def inner(x):\n        pass\n", "inside of other functions: move them"),
    ],
)
def test_files_without_kernels(text: str, reason: str, tmp_path: Path):
    with pytest.raises(LintFileError, match=reason):
        lint_file(write(tmp_path, text))


def test_unreadable_files(tmp_path: Path):
    with pytest.raises(LintFileError, match="there is no such file"):
        lint_file(tmp_path / "nothing.py")
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(LintFileError, match="it cannot be read"):
        lint_file(tmp_path / "bytes.py")
    (tmp_path / "broken.ttir").write_text("module {\n  tt.func public @k( {\n")
    with pytest.raises(LintFileError, match=r"no TTIR that can be read: TTIR line 3"):
        lint_file(tmp_path / "broken.ttir")
    (tmp_path / "empty.ttir").write_text("module {\n}\n")
    with pytest.raises(LintFileError, match="has one public function"):
        lint_file(tmp_path / "empty.ttir")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("from mine import f\n@triton.jit\ndef kernel(x):\n    tl.store(x, f(1))\n", "which lint does not import"),
        (
            "S = open('x')\n@triton.jit\ndef kernel(x):\n    tl.store(x, S)\n",
            "'S' of line 3, which is no plain constant",
        ),
        (
            "def f(a):\n    return a\n@triton.jit\ndef kernel(x):\n    tl.store(x, f(1))\n",
            "'f', which has no @triton.jit",
        ),
        (
            "@triton.jit\ndef kernel(x):\n    tl.store(x, tl.zeros((4,), tl.int32) + tl.zeros((8,), tl.int32))\n",
            "line 5: .*ncompatible",
        ),
    ],
)
def test_kernels_that_cannot_be_linted(text: str, reason: str, tmp_path: Path):
    kernel = only(write(tmp_path, text))
    assert kernel.failure is not None and re.search(reason, kernel.failure), kernel.failure


def test_ttir(tmp_path: Path):
    path = tmp_path / "kernel.ttir"
    path.write_text(
        """
module {
  tt.func public @double(%x: !tt.ptr<i64>) {
    %i = tt.make_range {end = 64 : i32, start = 0 : i32} : tensor<64xi32>
    %p = tt.splat %x : !tt.ptr<i64> -> tensor<64x!tt.ptr<i64>>
    %a = tt.addptr %p, %i : tensor<64x!tt.ptr<i64>>, tensor<64xi32>
    %v = tt.load %a : tensor<64x!tt.ptr<i64>> loc("model.py":12:4)
    %s = arith.addi %v, %v : tensor<64xi64> loc("model.py":13:4)
    tt.store %a, %s : tensor<64x!tt.ptr<i64>>
    tt.return
  }
}
"""
    )
    (finding,) = only(path).findings
    assert (finding.rule, finding.file, finding.line) == ("N308", "model.py", 13)


# The command


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["lint", *map(str, arguments)])
    return result.exit_code, result.output


def test_command_exits_with_1_on_findings(tmp_path: Path):
    path = write(tmp_path, BAD)
    status, output = run(path)
    assert status == 1
    assert f"{path}:8: N101 wrong: reversed mask" in output and "tl.store(y + i, v, mask=i < n)" in output
    assert "add was taken to have x_ptr: *fp32" in output
    assert "1 kernel, 2 wrong" in output
    assert run(path, "--fail-on", "never")[0] == 0


def test_command_fails_on_what_is_asked(tmp_path: Path):
    path = write(tmp_path, GOOD)
    assert run(path)[0] == 0
    given = [text for name in ("x_ptr", "y_ptr", "out_ptr") for text in ("--with", f"{name}=*i64")]
    assert run(path, *given)[0] == 0  # scalar, which only fails if asked for
    assert run(path, *given, "--fail-on", "scalar")[0] == 1
    assert run(path, "--with", "x_ptr=float")[0] == 2


def test_command_exits_with_2_where_it_could_not_lint(tmp_path: Path):
    status, output = run(
        write(
            tmp_path,
            "@triton.jit\ndef kernel(x):\n    tl.store(x, tl.zeros((4,), tl.int32) + tl.zeros((8,), tl.int32))\n",
        )
    )
    assert status == 2 and "not linted: kernel: line 5" in output and "1 not linted" in output
    status, output = run(tmp_path / "nothing.py")
    assert status == 2 and "there is no such file" in output


def test_json(tmp_path: Path):
    path = write(tmp_path, BAD)
    run(path, "--json", tmp_path / "lint.json")
    data = json.loads((tmp_path / "lint.json").read_text())
    (kernel,) = data["kernels"]
    assert data["schema"] == 1 and kernel["kernel"] == "add" and kernel["path"] == str(path)
    assert {finding["severity"] for finding in kernel["findings"]} == {"wrong"}
    assert set(kernel["findings"][0]) == {"rule", "what", "file", "line", "severity", "title", "instead"}
