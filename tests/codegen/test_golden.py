"""Kernels as they are emitted, held against those in git: what changes is seen, and accepted on purpose."""

from __future__ import annotations

import difflib

import pytest
import torch

from tests.codegen.golden_programs import FOLDER, PROGRAMS, TORCHES, emitted, kept

pytestmark = [pytest.mark.compiled, pytest.mark.quick]

ACCEPT = "python -m tests.codegen.accept_golden"


@pytest.mark.skipif(
    not torch.__version__.startswith(tuple(f"{version}." for version in TORCHES)),
    reason=f"the files are those of torch {', '.join(TORCHES)}",
)
@pytest.mark.parametrize("name", PROGRAMS)
def test_emitted_kernels_are_the_accepted_ones(name: str):
    accepted, now = kept(name).read_text(), emitted(name)
    difference = "".join(difflib.unified_diff(accepted.splitlines(True), now.splitlines(True), "accepted", "emitted"))
    assert not difference, f"if this is meant to be, `{ACCEPT} {name}`:\n{difference}"


def test_each_file_is_that_of_a_program():
    assert {path.name for path in FOLDER.iterdir()} == {kept(name).name for name in PROGRAMS}
