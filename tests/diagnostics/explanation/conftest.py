"""Compiles that start cold, as those of the compile cache's tests do."""

from tests.cache.conftest import own_caches  # noqa: F401 - a fixture
