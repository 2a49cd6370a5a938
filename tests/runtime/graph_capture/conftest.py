"""Captures of one test are not those of another."""

from __future__ import annotations

import gc

import pytest
import torch

from tests import graph_captures


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    gc.collect()  # what other tests left does not decide where this test's tensors lie
    graph_captures.forget()
    yield
    torch._dynamo.reset()  # with its graphs, which hold memory


@pytest.fixture(autouse=True, scope="module")
def _leaves_nothing():
    yield
    gc.collect()


@pytest.fixture
def counts():
    """Of the functions of the test, so far."""
    return graph_captures.counts
