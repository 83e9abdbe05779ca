"""The cache of the rigs: a directory outside the repository, which holds what a rig downloaded."""

from __future__ import annotations

import os
from pathlib import Path


def directory() -> Path:
    """`$HOLDFAST_RIGS`, or `holdfast/rigs` in the user's cache directory."""
    if chosen := os.environ.get("HOLDFAST_RIGS"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "holdfast" / "rigs"
