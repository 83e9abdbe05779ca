"""Checking a posted run against the policy: the first rule that refuses it is named.

A program is judged by the file that the guard would execute: found with the run's PATH and working directory, with all
links resolved. So a link with an allowed name does not help. The judgement is made when the run is posted, and again
when it starts. It cannot see what a program then does: an interpreter, a shell or a build tool that is allowed can run
everything.
"""

from __future__ import annotations

import os
import pwd
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlsplit

from ..values.environment import child_environment
from ..values.errors import PolicyError
from ..values.fields import RUNTIMES
from .patterns import fits_name, fits_path
from .process_links import passes_process_link

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..config.policy import PolicyRule

_DEFAULT_PATH = "/usr/local/bin:/usr/bin:/bin"  # of the guard
# The limits by their words: the posted field, and whether a run without a value has no limit at all.
_LIMITS = {
    "timeout": ("timeout_s", True),
    "cpu_time": ("cpu_time_s", True),
    "memory": ("memory_bytes", True),
    "pids": ("pids", True),
    "max_output": ("max_output_bytes", True),
    "priority": ("priority", False),
}


class PostedRun(NamedTuple):
    """The fields of a posted run that the policy judges; `limits` by their posted names, with the daemon's defaults."""

    argv: tuple[str, ...]
    cwd: str | None
    stdin: str | None
    env: Mapping[str, str]
    env_keep: tuple[str, ...]
    env_drop: tuple[str, ...]
    container: str | None
    runtime: str | None  # of the container
    user: int | None  # the user at the other end of the socket
    limits: Mapping[str, Any]
    max_timeout_s: float | None
    ending_s: float  # the waits of its ladder together
    usual_grace_s: float  # of a run that names none
    stragglers: str | None


def check_run(rules: Mapping[str, PolicyRule], run: PostedRun) -> dict[str, Any]:
    """The limits that the run gets because it named none, by their posted names. PolicyError: a rule refuses the run.

    Looks at the file system: call it in a thread.
    """
    _check_user(rules.get("users"), run.user)
    _check_container(rules, run)
    if run.container is None:
        _check_program(rules.get("programs"), run)
        _check_directory(rules.get("directories"), "the working directory", run.cwd or os.getcwd())
    if run.stdin not in (None, "null", "pipe"):
        _check_directory(rules.get("directories"), "the file of stdin", run.stdin or "")
    _check_names(rules.get("env"), (*run.env, *run.env_keep))
    return _check_limits(rules, run)


def _check_user(rule: PolicyRule | None, user: int | None) -> None:
    if rule is None or user is None:
        return
    if str(user) not in rule.value and _name_of(user) not in rule.value:
        raise _refused(rule, f"the user {_name_of(user)} may not post runs")


def _check_container(rules: Mapping[str, PolicyRule], run: PostedRun) -> None:
    if run.container is None:
        return
    # Nothing here sees the programs in a container, so a rule for programs needs one for containers beside it.
    rule = rules.get("containers") or rules.get("programs")
    if rule is None:
        return
    if "containers" not in rules or not fits_name(run.container, rule.value):
        raise _refused(rule, f"a command may not run in the container {run.container[:80]!r}")
    # The runtime is a program of the host, and its options may lead to the containers of another host.
    if run.runtime not in (None, *RUNTIMES):
        raise _refused(rule, f"the runtime {run.runtime[:80]!r} has a path or options")


def _check_program(rule: PolicyRule | None, run: PostedRun) -> None:
    if rule is None:
        return
    found = resolve_program(run)
    if found is None:
        why = "is not found or goes through a link in /proc, so nobody can say whether it is allowed"
        raise _refused(rule, f"the program {run.argv[0][:200]!r} {why}")
    if not fits_path(found, rule.value):
        raise _refused(rule, f"the program {found[:200]} is not allowed")


def resolve_program(run: PostedRun) -> str | None:
    """The file that the guard would execute, with all links resolved; None: there is none, or only the run can say."""
    name, cwd = run.argv[0], run.cwd or os.getcwd()
    if not name:
        return None
    if "/" in name:
        candidates = [name]
    else:
        environ = child_environment(os.environ, run_id="x", extra=run.env, keep=run.env_keep, drop=run.env_drop)
        candidates = [f"{place}/{name}" if place else name for place in environ.get("PATH", _DEFAULT_PATH).split(":")]
    for candidate in candidates:
        path = os.path.join(cwd, candidate)
        if passes_process_link(path):
            return None
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return os.path.realpath(path)
    return None


def _check_directory(rule: PolicyRule | None, what: str, path: str) -> None:
    if rule is None:
        return
    if passes_process_link(path):
        raise _refused(rule, f"{what} {path[:200]!r} goes through a link in /proc")
    found = os.path.realpath(path)
    for allowed in rule.value:
        place = os.path.realpath(allowed) if "*" not in allowed else allowed
        if fits_path(found, (place, f"{place.rstrip('/')}/**")):
            return
    raise _refused(rule, f"{what} {found[:200]} is not allowed")


def _check_names(rule: PolicyRule | None, names: tuple[str, ...]) -> None:
    if rule is None:
        return
    for name in names:
        if not fits_name(name, rule.value):
            raise _refused(rule, f"the variable {name[:80]} may not be set")


def _check_limits(rules: Mapping[str, PolicyRule], run: PostedRun) -> dict[str, Any]:
    added: dict[str, Any] = {}
    for word, (field, is_unlimited) in _LIMITS.items():
        rule = rules.get(f"limits.{word}")
        if rule is None:
            continue
        value = run.limits.get(field)
        if value is None and is_unlimited:
            added[field] = rule.value
        elif value is not None and value > rule.value:
            raise _refused(rule, f"{field} is {value:g}, and at most {rule.value:g} is allowed")
        if word == "timeout":
            check_timeout(rules, run.max_timeout_s)
            _check_ending(rule, run)
    return added


def _check_ending(rule: PolicyRule, run: PostedRun) -> None:
    """Bound what a run may add to its timeout: the waits of its ladder, and processes that live on."""
    highest_s = max(rule.value, run.usual_grace_s)  # the operator's own grace may be longer than the limit
    if run.ending_s > highest_s:
        raise _refused(rule, f"grace and ladder take {run.ending_s:g} s, and at most {highest_s:g} s are allowed")
    if run.stragglers == "leave":
        raise _refused(rule, "stragglers may not be left: no timeout would hold for them")


def check_timeout(rules: Mapping[str, PolicyRule], timeout_s: float | None) -> None:
    """Check a timeout or a ceiling of timeouts, such as after an extension. PolicyError."""
    rule = rules.get("limits.timeout")
    if rule is not None and timeout_s is not None and timeout_s > rule.value:
        raise _refused(rule, f"the run would have {timeout_s:g} s, and at most {rule.value:g} s are allowed")


def check_webhook(rule: PolicyRule | None, url: str) -> None:
    """Check the target of a webhook: its host, or its host and port. PolicyError.

    A target is judged by its name: whoever may change what the name stands for in the DNS, may lead it elsewhere.
    """
    if rule is None:
        return
    parts = urlsplit(url)
    host = (parts.hostname or "").rstrip(".")
    port = parts.port or (443 if parts.scheme == "https" else 80)
    names = (host, f"{host}:{port}")
    wanted = tuple(pattern.lower().replace("[", "").replace("]", "") for pattern in rule.value)
    if not any(fits_name(name, wanted) for name in (*names, *(f"{parts.scheme}://{name}" for name in names))):
        raise _refused(rule, f"a webhook may not go to {host[:200]}:{port}")


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _refused(rule: PolicyRule, what: str) -> PolicyError:
    return PolicyError(
        f"{what} ({rule.name})", rule=rule.name, remedy="ask the operator of the daemon for another rule"
    )
