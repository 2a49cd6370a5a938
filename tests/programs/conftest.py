"""Programs are compiled from scratch, as in tests/compile."""

from tests.compile.conftest import _fresh_compiler  # noqa: F401
