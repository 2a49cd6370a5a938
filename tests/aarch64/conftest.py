"""These tests run with the plugin only (`make test-aarch64`)."""

from __future__ import annotations

import pytest


def pytest_ignore_collect(config: pytest.Config) -> bool | None:
    return None if config.pluginmanager.hasplugin("tests.aarch64.plugin") else True
