"""Run a command as an ordinary user, for tests that are root themselves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = 65534
SOMEBODY_ELSE = 65533  # no user of any system; a number is all a process needs


def as_nobody(argv: list[str]) -> list[str]:
    """The argv that runs `argv` without any privilege."""
    drop = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", "--inh-caps=-all", "--"]
    return [*drop, *argv]


def install_setuid(program: Path, target: Path, uid: int) -> Path:
    """Copy a program so that its user becomes `uid`. Needs root and a file system that allows it."""
    target.write_bytes(program.read_bytes())
    os.chown(target, uid, uid)
    target.chmod(0o4755)  # after chown, which clears the bit
    return target


def allows_setuid(directory: Path) -> bool:
    """Whether setuid programs in that directory take effect."""
    return not os.statvfs(directory).f_flag & os.ST_NOSUID
