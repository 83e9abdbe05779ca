"""Shared fixtures of the daemon's tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.support.hooks import Hook

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def hook() -> Iterator[Hook]:
    """A receiver of webhooks."""
    with Hook() as hook:
        yield hook
