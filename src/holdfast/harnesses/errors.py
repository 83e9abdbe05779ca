"""The error of settings that Holdfast cannot change, or does not dare to."""

from __future__ import annotations

from ..values.errors import HoldfastError


class SettingsError(HoldfastError):
    """Settings of a harness cannot be read or changed; nothing was written."""
