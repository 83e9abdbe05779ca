"""A run inside a container, as the guard is told of it: command lines of the runtime, and a spec for the agent there.

The agent is the guard binary itself, static and in need of nothing, put into the container by the runtime's `cp` under
a name made of its content: the first run brings it, later ones find it, and another version gets another name. One
`exec` runs the agent, whose stdin and stdout become the guard's link to it; a second one brings the command's own
stdio. What the command is, its arguments and its variables, goes over that link: nothing of it is in the runtime's
command lines, which everybody on the host can read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..values.errors import GuardError, SpecError

if TYPE_CHECKING:
    from ..values.spec import RunSpec


class CommandLines(NamedTuple):
    """What the guard runs on this side: to attach the command, call the agent, put it there, look, and sweep."""

    attach: tuple[str, ...]
    enter: tuple[str, ...]
    copy: tuple[str, ...]
    look: tuple[str, ...]
    sweep: tuple[str, ...]


def command_lines(spec: RunSpec, guard: str) -> CommandLines:
    """The command lines for this run. SpecError: its runtime is not installed. GuardError: the guard cannot be read."""
    import shlex

    name, words = spec.in_container or "", shlex.split(spec.container_runtime or "")
    runtime = (_program(words[0], spec.run_id), *words[1:])
    agent = _agent_path(guard, spec.run_id)
    # One run id may be used twice in a container, by runs of two state directories: the meeting place may not. Where it
    # is can be seen by others there; behind the colon is what they do not know.
    meeting = f"{spec.run_id[:40]}-{os.urandom(4).hex()}:{os.urandom(16).hex()}"
    return CommandLines(
        attach=(*runtime, "exec", *_stdio_options(spec), name, agent, "inside", "attach", meeting),
        enter=(*runtime, "exec", "-i", name, agent, "inside", "hold", meeting),
        copy=(*runtime, "cp", guard, f"{name}:{agent}"),
        look=(*runtime, "container", "inspect", "--format", "{{.State.Status}}", name),
        sweep=(*runtime, "exec", name, agent, "inside", "sweep", spec.run_id),
    )


def variables(spec: RunSpec) -> dict[str, str]:
    """What is set inside beside what the container gives everybody: nothing of this host's environment."""
    from ..values.environment import HEARTBEAT, RUN_ID, STATE_DIR

    ours = (HEARTBEAT, STATE_DIR)  # names of files on this side of the wall
    return {key: value for key, value in (spec.env or {}).items() if key not in ours} | {RUN_ID: spec.run_id}


def _stdio_options(spec: RunSpec) -> list[str]:
    if spec.pty:
        return ["-i", "-t", "--detach-keys="]  # no key may cut the terminal off: it would leave the run unheard
    return [] if spec.stdin == "null" else ["-i"]


def _program(word: str, run_id: str) -> str:
    import shutil

    found = shutil.which(word)
    if found is None:
        remedy = f"install {word}, or name another runtime"
        raise SpecError(f"there is no program {word!r}", field="container_runtime", run_id=run_id, remedy=remedy)
    return os.path.abspath(found)


def _agent_path(guard: str, run_id: str) -> str:
    """Where the agent is, inside: at the root, the one directory that every container has."""
    try:
        status = os.stat(guard)
        key = (guard, status.st_ino, status.st_size, status.st_mtime_ns)
        if key not in _known:
            from hashlib import sha256

            with open(guard, "rb") as binary:
                _known[key] = f"/.holdfast-{sha256(binary.read()).hexdigest()[:16]}"
    except OSError as error:
        message = f"the guard {guard} cannot be read: {error.strerror}"
        raise GuardError(message, errno=error.errno, run_id=run_id, remedy="reinstall holdfast") from None
    return _known[key]


_known: dict[tuple[str, int, int, int], str] = {}
