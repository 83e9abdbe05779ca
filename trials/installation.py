"""Holdfast for the harness of a session: put in by `holdfast install`, and what its record has afterwards."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_LONGEST_S = 60.0


class InstallError(Exception):
    """`holdfast install` refused, with its own words."""


def install(key: str, environment: Mapping[str, str], work: Path) -> None:
    """Install Holdfast for one harness, for the user whose HOME the environment names."""
    done = _holdfast(["install", key, "--yes"], environment, work)
    if done.returncode:
        raise InstallError(done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}")


def runs(environment: Mapping[str, str], work: Path) -> list[dict[str, Any]]:
    """The runs that Holdfast has on record, oldest first."""
    done = _holdfast(["ps", "--all", "--json"], environment, work)
    found = json.loads(done.stdout or b"[]") if done.returncode == 0 else []
    rows: list[dict[str, Any]] = found["runs"] if isinstance(found, dict) else found
    return sorted(rows, key=lambda row: str(row["run_id"]))


def output(run_id: str, environment: Mapping[str, str], work: Path) -> bytes:
    """The output of a run that is on record."""
    return _holdfast(["logs", run_id], environment, work).stdout


def _holdfast(words: list[str], environment: Mapping[str, str], work: Path) -> subprocess.CompletedProcess[bytes]:
    command = [os.path.join(os.path.dirname(sys.executable), "holdfast"), *words]
    still: dict[str, Any] = {"stdin": subprocess.DEVNULL, "capture_output": True, "check": False}
    return subprocess.run(command, env=environment, cwd=work, timeout=_LONGEST_S, **still)
