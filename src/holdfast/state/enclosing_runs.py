"""Runs that enclose this process: whether one of them is ending, which explains a signal to us.

The guard of an enclosing run signals every process of its tree, us included, and nothing tells us who sent a signal.
But that guard records its verdict before it signals anything. So we look for guards among our ancestors and read
their journals, which they hold open. That also works where a cleared environment hides the enclosing run, and where
that run has no directory.
"""

from __future__ import annotations

import os

from ..journal.facts import PREAMBLE
from ..journal.reader import JournalReader
from ..outcome import decide
from ..proc.process_table import with_ancestors
from ..values.errors import HoldfastError

_JOURNAL_FD = 3  # GUARD_FD_JOURNAL of native/frame.h
_JOURNAL_NAMES = ("journal", "memfd:holdfast-journal")  # of run_directory.py, and of guard/descriptors.py


def enclosing_run_is_ending() -> bool:
    """Whether the verdict on a run that encloses this process is on record. False also when that cannot be seen."""
    return any(_is_ending(f"/proc/{pid}/fd/{_JOURNAL_FD}") for pid in with_ancestors(os.getppid()))


def enclosing_sessions(state_path: str) -> set[str]:
    """The sessions of the runs of this state directory that enclose this process."""
    journals = [f"/proc/{pid}/fd/{_JOURNAL_FD}" for pid in with_ancestors(os.getppid())]
    within = os.path.join(os.path.realpath(state_path), "")
    found = [_read(path) for path in journals if _target(path).startswith(within)]
    return {reader.spec["session"] for reader in found if reader is not None and reader.spec and reader.spec["session"]}


def _is_ending(path: str) -> bool:
    reader = _read(path)
    return reader is not None and decide(reader.facts).status is not None


def _target(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _read(path: str) -> JournalReader | None:
    """The journal that a guard has open there, read to its end; None: this is not a guard, or it cannot be read."""
    if os.path.basename(_target(path).removesuffix(" (deleted)")) not in _JOURNAL_NAMES:
        return None  # not a guard; to open a pipe, or a file on a file system that hangs, might wait
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        if os.pread(fd, len(PREAMBLE), 0) != PREAMBLE:
            return None
        reader = JournalReader(fd)
        reader.scan()
    except (HoldfastError, OSError):
        return None  # its beginning was released already, or it is damaged
    finally:
        os.close(fd)
    return reader
