"""A process as one look at `/proc` shows it: its identity, parent, marks of a harness, and session."""

from __future__ import annotations

import os
from typing import NamedTuple

from ..proc.process_table import all_pids, read_proc
from ..values.environment import RUN_ID, matches
from ..values.harnesses import HARNESSES, Harness, session_id
from ..values.identity import ProcessIdentity, read_identity
from ..values.process_memory import command_line, environment

_INTERPRETERS = frozenset(("node", "bun", "deno", "python", "python3"))
_SCRIPT_WORDS = 8  # options of the interpreter may come before its script
_LONGEST_PID = 10  # digits; int() refuses thousands of them
_CLAUDE_SIGNS = frozenset(("CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_CHILD_SESSION"))
_MARKED = tuple((harness, mark) for harness in HARNESSES for mark in harness.marks)


class SeenProcess(NamedTuple):
    """One process. `harness`: the one whose mark is in its environment; `program`: the harness that it is itself."""

    identity: ProcessIdentity
    parent: int
    uid: int
    name: str
    words: tuple[str, ...]
    harness: Harness | None
    mark: str | None  # the variable that tells it
    session: str | None
    harness_pid: int | None  # as the harness wrote it down
    program: Harness | None
    is_ours: bool  # it carries the token of a run

    @property
    def pid(self) -> int:
        """The PID of the process."""
        return self.identity.pid


def look_at_all() -> dict[int, SeenProcess]:
    """Every process that this process can see, by PID. A process that hides its environment has no marks."""
    return {pid: seen for pid in all_pids() if (seen := look_at(pid)) is not None}


def look_at(pid: int) -> SeenProcess | None:
    """One process; None when it is gone, or is no process of its own (a kernel thread, a zombie)."""
    identity = read_identity(pid)
    status = _status(pid)
    raw = command_line(pid).rstrip(b"\0")
    if identity is None or not raw or "PPid" not in status:
        return None
    words = tuple(os.fsdecode(word) for word in raw.split(b"\0"))
    environ = _environment(pid)
    if read_identity(pid) != identity:
        return None  # another process has the PID now, and we may have read parts of both
    harness, mark = _mark_in(environ)
    return SeenProcess(
        identity,
        int(status["PPid"]),
        int(status.get("Uid", "-1").split()[0]),
        status.get("Name", "?"),
        words,
        harness,
        mark,
        None if harness is None else session_id(harness, environ),
        _harness_pid(harness, environ),
        _program(status.get("Name", ""), words),
        RUN_ID in environ,
    )


def _mark_in(environ: dict[str, str]) -> tuple[Harness | None, str | None]:
    for harness, pattern in _MARKED:
        mark = next((name for name in environ if matches(name, pattern) and not _is_setting(name)), None)
        if mark is not None:
            return harness, mark
    return None, None


def _is_setting(name: str) -> bool:
    """Whether users set this variable for the harness itself: then it is in all their shells, and tells nothing."""
    return name.startswith("CLAUDE_CODE_") and name not in _CLAUDE_SIGNS


def _harness_pid(harness: Harness | None, environ: dict[str, str]) -> int | None:
    for name in harness.pids if harness is not None else ():
        text = environ.get(name, "")
        if text.isascii() and text.isdigit() and len(text) <= _LONGEST_PID:
            return int(text)
    return None


def _program(name: str, words: tuple[str, ...]) -> Harness | None:
    names = {name, os.path.basename(words[0])}
    if names & _INTERPRETERS:
        scripts = [word for word in words[1:_SCRIPT_WORDS] if not word.startswith("-")]
        names.update(os.path.splitext(os.path.basename(word))[0] for word in scripts[:1])
    return next((harness for harness in HARNESSES if names & set(harness.programs)), None)


def _environment(pid: int) -> dict[str, str]:
    pairs = (entry.partition(b"=") for entry in environment(pid).split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, equals, value in pairs if equals and name}


def _status(pid: int) -> dict[str, str]:
    lines = read_proc(f"{pid}/status").decode("utf-8", "backslashreplace").split("\n")  # a name may have other breaks
    return {name: value.strip() for name, colon, value in (line.partition(":") for line in lines) if colon}
