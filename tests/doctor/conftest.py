"""The doctor's tests examine the same kind of state directory as the tests of `state`."""

from __future__ import annotations

from tests.state.conftest import clean_environment, index, marked, own_orphans_only, state

__all__ = ["clean_environment", "index", "marked", "own_orphans_only", "state"]
