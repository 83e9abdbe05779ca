"""The tests of `doctor` look for the same kind of orphans as the tests of `state`."""

from __future__ import annotations

from tests.state.conftest import clean_environment, marked, own_orphans_only

__all__ = ["clean_environment", "marked", "own_orphans_only"]
