"""`holdfast submit`: queue a command with the daemon, and print the id of its run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ...client import calls
from ...values.environment import inherited, parent_run_id
from ...values.errors import DaemonUnreachableError, StateError
from ...values.fields import printable
from ..following.ready_start import ready_timeout, until_ready
from ..lookup.daemon_request import ask
from ..lookup.daemon_state import START, daemon_state
from ..parsing.command import JSON, STATE_DIR, PrefixCommand, put, show_json
from ..parsing.options import CommandLine, Option, UsageError, pair
from ..parsing.run_options import OPTIONS as OPTIONS_OF_RUN
from ..parsing.run_options import options_of

if TYPE_CHECKING:
    from ...client.posting import SubmitOptions
    from ...state.directory import StateDirectory

_WITHIN_S = 30.0  # a slow disk or a long queue takes time; after that, we do not know whether the daemon queued the run
# Options of `run` that `submit` does not have: they are for a caller in the foreground, or the daemon decides them.
_NOT_HERE = (
    "--detach",
    "--lifetime",
    "--with-parent",
    "--with-process",
    "--late",
    "--pty",
    "--no-pty",
    "--ready-timeout",
    "--stdin",
    "--report",
    "--quiet",
    "--state-dir",
    "--help",
)
_OWN = (
    Option("--priority", "NUMBER", "runs with a higher priority begin first: -1000 to 1000 (default 0)"),
    Option("--queue-timeout", "DURATION", "give up if it has not begun after this long"),
    Option("--delay", "DURATION", "begin not before this long from now; a restart of the daemon does not change that"),
    Option("--after", "RUN", "begin when this run has succeeded; cancelled if it does not", many=True),
    Option("--concurrency-key", "KEY", "the daemon bounds the runs of this key together (default: none)"),
    Option("--parallel", "NUMBER", "begin only while fewer runs of its concurrency key (else its session) are running"),
    Option("--on-verdict", "URL", "post the report there at the verdict"),
    Option("--idempotency-key", "KEY", "the same key with the same command gives the same run"),
    Option("--cpus", "NUMBER", "CPUs that Ray reserves for it (serve --engine ray)"),
    Option("--gpus", "NUMBER", "GPUs that Ray reserves for it"),
    Option("--resource", "NAME=NUMBER", "a resource of the Ray cluster that is reserved for it", many=True),
    Option("--node-label", "NAME=VALUE", "only on a node of the Ray cluster with this label", many=True),
    Option("--host", "HOST", "only on this host: its name, its address, or the id of the node"),
    Option("--no-wait", None, "do not queue it if no host can ever take it: say so, and exit with 125"),
    START,
    Option("--wait", None, "wait until the run ends, and exit as `holdfast run` does"),
    Option("--follow", None, "show its output as it comes, and exit as `holdfast run` does", short="f"),
    JSON,
)
_QUEUE = {
    "--queue-timeout": "queue_timeout",
    "--delay": "delay",
    "--concurrency-key": "concurrency_key",
    "--on-verdict": "on_verdict",
}
_REMEDY = "start one (--start, or holdfast serve), or run it without (holdfast run --detach)"
OPTIONS = (
    *(option for option in OPTIONS_OF_RUN if option.flag not in _NOT_HERE),
    Option("--stdin", "null|pipe|PATH", "the command's stdin (default null); holdfast attach writes to a pipe"),
    Option("--pty", None, "give it a terminal, to which holdfast attach connects (default: none)", short="t"),
    Option("--ready-timeout", "DURATION", "wait until it is ready; after this long, end it"),
    *_OWN,
    STATE_DIR,
    Option("--help", None, "print this text", short="h"),
)
_MORE = """\
The command runs in your current directory (or in --cwd), with the daemon's environment and the variables of --env; it
does not get your own environment, unless you give --env-inherit. With --wait or --follow, Ctrl-C ends the waiting and
not the run. With --follow the id of the run is on stderr.

Exit codes: 0 queued; 125 not queued. With --wait or --follow the exit codes of `holdfast run`, with --ready-timeout
those of `holdfast wait --ready`; the time counts from the post, and 124 means that the run was ended.
"""


def act(given: CommandLine) -> int:
    within_s = ready_timeout(given)
    _check_together(given)
    options, key = submit_options(given), given.last("--idempotency-key")
    call = calls.submit(given.words, options, key)  # a wrong option is found before a daemon is started
    state = daemon_state(given, _REMEDY)
    if given.has("--after"):
        options["after"] = [_named(state, text) for text in given.all("--after")]
        call = calls.submit(given.words, options, key)
    report = _post(state, call)
    if given.has("--follow"):
        from ..following.shown_run import show_to_end

        return show_to_end(state, report["run_id"], given)
    if given.has("--wait"):
        return _wait(state, report["run_id"], as_json=given.has("--json"))
    if given.has("--json"):
        show_json(report)
    else:
        put(f"{report['run_id']}\n")
    return 0 if within_s is None else until_ready(state, report["run_id"], within_s)


def _check_together(given: CommandLine) -> None:
    for one, other in (("--wait", "--ready-timeout"), ("--follow", "--ready-timeout"), ("--follow", "--json")):
        if given.has(one) and given.has(other):
            raise UsageError(f"{one} and {other} were both given", remedy="leave one of them out")


def submit_options(given: CommandLine) -> SubmitOptions:
    """The options to post for this command line. UsageError names the wrong option."""
    detached = CommandLine({**given.values, "--detach": [""]}, given.words)
    options: dict[str, Any] = {name: value for name, value in options_of(detached).items() if value}
    if given.has("--env-inherit"):
        options |= _callers_environment(options)
    if "in_container" not in options:
        options.setdefault("cwd", os.getcwd())
    if (parent := parent_run_id(os.environ)) is not None:
        options.setdefault("parent", parent)
    options |= {name: given.last(flag) for flag, name in _QUEUE.items() if given.has(flag)}
    if (priority := given.last("--priority")) is not None:
        options["priority"] = _number(priority)
    if (parallel := given.last("--parallel")) is not None:
        options["parallel"] = _count(parallel)
    options |= _placement(given)
    return options  # type: ignore[return-value]


def _callers_environment(options: dict[str, Any]) -> dict[str, Any]:
    """The options by which the run gets our environment in place of the daemon's. UsageError: one is no text."""
    ours = inherited(os.environ, tuple(options.get("env_keep", ())), tuple(options.get("env_drop", ())))
    for name, value in ours.items():
        if printable(name + value) != name + value:
            message = f"the variable {printable(name)} is not UTF-8, and only text can be posted"
            raise UsageError(message, remedy=f"leave it out: --env-drop {printable(name)}")
    # Drop all of the daemon's variables; ours count as given, and a given variable is stronger than any pattern.
    return {"env": {**ours, **options.get("env", {})}, "env_keep": (), "env_drop": ["*"]}


def _placement(given: CommandLine) -> dict[str, Any]:
    """The options that choose a host. UsageError names the wrong one."""
    found: dict[str, Any] = {}
    for flag, name in (("--cpus", "cpus"), ("--gpus", "gpus")):
        if (text := given.last(flag)) is not None:
            found[name] = _amount(text, flag)
    if pairs := [pair(text, "--resource", "NAME=NUMBER") for text in given.all("--resource")]:
        found["resources"] = {name: _amount(text, f"--resource {name}=") for name, text in pairs}
    if labels := dict(pair(text, "--node-label", "NAME=VALUE") for text in given.all("--node-label")):
        found["node_labels"] = labels
    if (host := given.last("--host")) is not None:
        found["host"] = host
    return found | ({"no_wait": True} if given.has("--no-wait") else {})


def _amount(text: str, flag: str) -> float:
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= 1_000_000:  # also not a number, which no comparison holds for
        raise UsageError(f"{flag} {text!r} is no amount", remedy="give a number that is not negative")
    return amount


def _count(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 6 and int(text) > 0):
        raise UsageError(f"--parallel {text!r} is not a number of runs", remedy="give one of at least 1")
    return int(text)


def _number(text: str) -> int:
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 4):
        raise UsageError(f"--priority {text!r} is not a number", remedy="give one from -1000 to 1000")
    return int(text)


def _named(state: StateDirectory, text: str) -> str:
    """The id of the run that the text names, queued runs too. Fails as `find`."""
    from ..lookup.selection import find, queued_id

    try:
        return find(state, text)
    except StateError as error:
        if (queued := queued_id(error)) is None:
            raise
        return queued


def _post(state: StateDirectory, call: calls.ClientCall) -> dict[str, Any]:
    try:
        report: dict[str, Any] = ask(state, call, within_s=_WITHIN_S)
    except DaemonUnreachableError as error:
        raise DaemonUnreachableError(error.message, remedy=_REMEDY) from None
    return report


def _wait(state: StateDirectory, run_id: str, *, as_json: bool) -> int:
    from ..following.waited_runs import WaitedRuns

    if not as_json:
        put(f"{run_id}\n")
    waiting = WaitedRuns(state, settled=True, deadline=None, quiet=True)
    try:
        waiting.add([run_id])
        waiting.run()
        if as_json and run_id in waiting.runs:
            show_json(waiting.runs[run_id].report())
        return waiting.tell(as_json=False)
    finally:
        waiting.close()


COMMAND = PrefixCommand(
    "submit [OPTIONS] [--] COMMAND [ARG]...",
    "Queue a command with the daemon of the state directory, and print the id of its run.",
    OPTIONS,
    act,
    _MORE,
    prefixed="command",
)
