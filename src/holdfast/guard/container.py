"""A run inside a container: the command lines of its runtime, and the variables for the agent in there.

The agent is the guard binary itself, which is static and needs nothing. The runtime's `cp` puts it into the container
under a name made of its content: the first run brings it, later runs find it, and another version gets another name.
One `exec` runs the agent, whose stdin and stdout become the guard's link to it. A second `exec` brings the command's
own stdio. The command, its arguments and its variables go over that link. None of them is in the runtime's command
lines, which everybody on the host can read.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from ..values.environment import token
from ..values.errors import GuardError, SpecError

if TYPE_CHECKING:
    from ..values.spec import RunSpec


class CommandLines(NamedTuple):
    """The command lines of the container's runtime, which the guard runs on the host."""

    attach: tuple[str, ...]  # brings the command's stdio
    enter: tuple[str, ...]  # starts the agent
    copy: tuple[str, ...]  # copies the agent into the container
    look: tuple[str, ...]  # says whether the container runs
    sweep: tuple[str, ...]  # ends processes that carry the run's token


def command_lines(spec: RunSpec, guard: str) -> CommandLines:
    """The command lines for this run. SpecError: its runtime is not installed. GuardError: the guard cannot be read."""
    import shlex

    name, words = spec.in_container or "", shlex.split(spec.container_runtime or "")
    runtime = (_program(words[0], spec.run_id), *words[1:])
    agent = _agent_path(guard, spec.run_id)
    # Runs of two state directories may have the same id in one container, so the name of the meeting place has a random
    # part. Other processes in the container can see the name, but do not know the secret behind the colon.
    meeting = f"{spec.run_id[:40]}-{os.urandom(4).hex()}:{os.urandom(16).hex()}"
    return CommandLines(
        attach=(*runtime, "exec", *_stdio_options(spec), name, agent, "inside", "attach", meeting),
        enter=(*runtime, "exec", "-i", name, agent, "inside", "hold", meeting),
        copy=(*runtime, "cp", guard, f"{name}:{agent}"),
        look=(*runtime, "container", "inspect", "--format", "{{.State.Status}}", name),
        sweep=(*runtime, "exec", name, agent, "inside", "sweep", token(spec.run_id, spec.mark)),
    )


def variables(spec: RunSpec) -> dict[str, str]:
    """The variables that the command gets besides the container's own. None comes from this host's environment."""
    from ..values.environment import HEARTBEAT, RUN_MARK, STATE_DIR, own_variables

    ours = (HEARTBEAT, STATE_DIR, RUN_MARK)  # two name files outside the container, and the mark is always our own
    given = {key: value for key, value in (spec.env or {}).items() if key not in ours}
    return given | own_variables(spec.run_id, spec.mark)


def _stdio_options(spec: RunSpec) -> list[str]:
    if spec.pty:
        return ["-i", "-t", "--detach-keys="]  # no key may detach the terminal: the guard would get no more output
    return [] if spec.stdin == "null" else ["-i"]


def _program(word: str, run_id: str) -> str:
    import shutil

    found = shutil.which(word)
    if found is None:
        remedy = f"install {word}, or name another runtime"
        raise SpecError(f"there is no program {word!r}", field="container_runtime", run_id=run_id, remedy=remedy)
    return os.path.abspath(found)


def _agent_path(guard: str, run_id: str) -> str:
    """The path of the agent in the container. It is in the root directory, because every container has that."""
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
