"""These tests run with the plugin only (`make test-aarch64`)."""

from __future__ import annotations

import pytest

from tests.aarch64 import plugin


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.pluginmanager.is_registered(plugin) else True
