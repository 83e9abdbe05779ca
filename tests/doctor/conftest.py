"""The doctor's tests examine the same kind of state directory as the tests of `state`."""

from __future__ import annotations

from tests.state.conftest import index, state

__all__ = ["index", "state"]
