"""Installation: plan the changes of a harness's files, show them, and carry them out or take them back.

A plan is made whole before anything is written. If one file of a plan cannot be changed, none is. If a write fails,
the files that were written before it are put back.
"""

from __future__ import annotations

import difflib
import os
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from ..values.errors import HoldfastError
from .errors import SettingsError
from .ledger import LedgerEntry, digest
from .settings_file import FileChange, carry_out, check_writable, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from .ledger import Ledger
    from .managed_file import ManagedFile

CHANGED_SINCE = "it was changed since: only the parts of Holdfast are taken out"


class Plan(NamedTuple):
    """The changes of one harness; empty when everything is as it should be."""

    title: str
    changes: tuple[FileChange, ...]


def plan_install(title: str, files: Sequence[ManagedFile], ledger: Ledger) -> Plan:
    """The changes that bring Holdfast into these files. SettingsError: one of them cannot be changed."""
    changes = []
    for file in files:
        current = read(file.path)
        base = _without_ours(file, current, ledger)
        with _naming(file.path):
            wanted = _bytes(file.add(_text(base)))
        if wanted not in (None, base, current):
            check_writable(file.path)
            changes.append(FileChange(file.path, current, wanted))
    return Plan(title, tuple(changes))


def plan_uninstall(title: str, files: Sequence[ManagedFile], ledger: Ledger) -> Plan:
    """The changes that take Holdfast out of these files. SettingsError: one of them cannot be changed."""
    changes = []
    for file in files:
        current = read(file.path)
        if current is None:
            continue
        entry = ledger.find(file.path)
        wanted = _without_ours(file, current, ledger)
        if wanted != current:
            check_writable(file.path)
            is_exact = entry is not None and entry.made(current)
            changes.append(FileChange(file.path, current, wanted, "" if is_exact or wanted is None else CHANGED_SINCE))
    return Plan(title, tuple(changes))


def install(plan: Plan, files: Sequence[ManagedFile], ledger: Ledger) -> None:
    """Carry out a plan of `plan_install`. SettingsError, StateError: every file is as it was."""
    by_path = {file.path: file for file in files}

    def one(change: FileChange) -> None:
        assert change.after is not None
        old = ledger.find(change.path)
        base = _without_ours(by_path[change.path], change.before, ledger)
        made = _missing_directories(change.path) or (old.made_directories if old else ())
        # The backup comes first: without it nothing is changed.
        ledger.keep(LedgerEntry(change.path, base, digest(change.after), made))
        try:
            carry_out(change)
        except BaseException:
            if old is None:
                ledger.forget(change.path)
            else:
                ledger.keep(old)
            raise

    with ledger.lock.exclusive():
        _all_or_none(plan, one)


def uninstall(plan: Plan, files: Sequence[ManagedFile], ledger: Ledger) -> None:
    """Carry out a plan of `plan_uninstall`, and forget the files. SettingsError: every file is as it was."""
    with ledger.lock.exclusive():
        entries = {file.path: ledger.find(file.path) for file in files}
        _all_or_none(plan, carry_out)
        for path, entry in entries.items():
            if entry is not None:
                ledger.forget(path)
                _remove_directories(entry.made_directories)


def diff(change: FileChange) -> str:
    """The change as a unified diff."""
    before, after = _lines(change.before), _lines(change.after)
    names = (change.path if change.before is not None else "/dev/null", change.path)
    names = (names[0], "/dev/null") if change.after is None else names
    lines = difflib.unified_diff(before, after, *names)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ no newline at the end\n" for line in lines)


def _without_ours(file: ManagedFile, current: bytes | None, ledger: Ledger) -> bytes | None:
    """The content without our parts: exactly what was there, or the present content with our parts taken out."""
    if current is None:
        return None
    entry = ledger.find(file.path)
    if entry is not None and entry.made(current):
        return entry.before
    with _naming(file.path):
        return _bytes(file.remove(_text(current) or ""))


def _all_or_none(plan: Plan, act: Callable[[FileChange], None]) -> None:
    done: list[FileChange] = []
    try:
        for change in plan.changes:
            act(change)
            done.append(change)
    except BaseException as failure:
        for change in reversed(done):
            _put_back(change, failure)
        raise


def _put_back(change: FileChange, failure: BaseException) -> None:
    """Put back one file of a plan that failed. If that is impossible, `failure` names the file, and stays the error."""
    try:
        carry_out(FileChange(change.path, change.after, change.before))
    except SettingsError as error:
        if isinstance(failure, HoldfastError):
            failure.message += f"; {change.path} is not put back: {error.message}"


def _missing_directories(path: str) -> tuple[str, ...]:
    """The directories that a new file needs and that are not there, the innermost first."""
    missing = []
    directory = os.path.dirname(os.path.abspath(path))
    while not os.path.exists(directory):
        missing.append(directory)
        directory = os.path.dirname(directory)
    return tuple(missing)


def _remove_directories(paths: Sequence[str]) -> None:
    for path in paths:
        try:
            os.rmdir(path)
        except OSError:
            return  # somebody else uses it now


@contextmanager
def _naming(path: str) -> Iterator[None]:
    """Name the file in an error of its edit."""
    try:
        yield
    except SettingsError as error:
        raise SettingsError(f"{path}: {error.message}", remedy=error.remedy or "nothing was changed") from None


def _text(content: bytes | None) -> str | None:
    try:
        return None if content is None else content.decode("utf-8")
    except UnicodeDecodeError:
        raise SettingsError("it is not UTF-8", remedy="nothing was changed") from None


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8")


def _lines(content: bytes | None) -> list[str]:
    return [] if content is None else content.decode("utf-8", "backslashreplace").splitlines(keepends=True)
