"""Jobs of two ranks and, for what is slow, of four. A rank serves all tests of a pytest process."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.distributed.ranks import Ranks


@pytest.fixture(scope="session")
def _two_ranks() -> Iterator[Ranks]:
    ranks = Ranks(2)
    yield ranks
    ranks.stop()


@pytest.fixture(scope="session")
def _four_ranks() -> Iterator[Ranks]:
    ranks = Ranks(4)
    yield ranks
    ranks.stop()


@pytest.fixture
def two_ranks(_two_ranks: Ranks) -> Ranks:
    return _two_ranks


@pytest.fixture(params=[2, pytest.param(4, marks=pytest.mark.slow)])
def ranks(request: pytest.FixtureRequest) -> Ranks:
    """Two ranks and, in the full run, four."""
    return request.getfixturevalue("_two_ranks" if request.param == 2 else "_four_ranks")
