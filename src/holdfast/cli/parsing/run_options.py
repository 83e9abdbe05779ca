"""The options of `run` and `submit`, and the spec of a run that they make."""

from __future__ import annotations

import os

from ...values.environment import STATE_DIR
from ...values.fast_imports import TYPE_CHECKING
from ...values.options import OPTIONS as SPEC_OPTIONS
from ...values.spec_cache import new_spec
from .options import CommandLine, Option, UsageError, pair

if TYPE_CHECKING:
    from ...values.options import SpecOptions
    from ...values.spec import RunSpec

OPTIONS = (
    Option("--timeout", "DURATION", "end the run after this long"),
    Option("--max-timeout", "DURATION", "an extension cannot move the timeout past this"),
    Option("--idle-timeout", "DURATION", "end the run after this long without activity"),
    Option("--idle-counts", "KINDS", "what counts as activity: output,cpu,heartbeat (default output)"),
    Option("--warn-before", "DURATION", "send a warning signal this long before the timeout"),
    Option("--warn-signal", "SIGNAL", "the warning signal (default USR1)"),
    Option("--grace", "DURATION", "the time from the first signal to SIGKILL (default 10s)"),
    Option("--ladder", "RUNGS", "the signals that end the run, such as INT:2s,TERM:8s,KILL"),
    Option("--drain", "DURATION", "read output for at most this long after the end (default 2s)"),
    Option("--drain-idle", "DURATION", "stop reading after this long without output (default 250ms)"),
    Option("--kill-wait", "DURATION", "wait this long for processes to die of SIGKILL (default 5s)"),
    Option(
        "--stragglers", "POLICY", "processes left when the command exits: kill, wait, leave, session (default kill)"
    ),
    Option("--cwd", "DIRECTORY", "the working directory of the command", short="w"),
    Option("--env", "NAME[=VALUE]", "set a variable; without a value, to that of the caller", many=True, short="e"),
    Option("--env-file", "PATH", "set the variables in a file of NAME=VALUE lines", many=True),
    Option("--env-inherit", None, "pass on the caller's environment; `run` does so anyway, `submit` does not"),
    Option("--env-keep", "PATTERN", "pass on a variable that is stripped by default", many=True),
    Option("--env-drop", "PATTERN", "strip a variable", many=True),
    Option("--stdin", "null|inherit|PATH", "the command's stdin (default inherit); with --detach null|pipe|PATH"),
    Option("--pty", None, "give it a terminal (default: if stdin, stdout and stderr are terminals)", short="t"),
    Option("--no-pty", None, "never give it a terminal"),
    Option("--merge", None, "send stderr to stdout, in the order of writing"),
    Option("--late", None, "pass on output that comes after the verdict, too"),
    Option("--memory", "SIZE", "end the run when its processes use more memory", short="m"),
    Option("--pids", "COUNT", "end the run when it has more processes"),
    Option("--max-output", "SIZE", "a budget of output (kept runs: 1G, which rolls)"),
    Option(
        "--on-max-output", "stop|drop|roll", "at --max-output: end the run, drop more output, or keep head and tail"
    ),
    Option("--cpu-time", "DURATION", "end the run when its processes have used more CPU time"),
    Option("--in-container", "NAME", "run it inside this running container; see docs/containers.md"),
    Option("--runtime", "COMMAND", "the container runtime: podman (default) or docker, and its own options"),
    Option("--session", "NAME", "the session it belongs to"),
    Option("--label", "NAME=VALUE", "a label, for the report", many=True, short="l"),
    Option("--name", "NAME", "a name, for the report"),
    Option("--id", "ID", "the run id (default: a new one)"),
    Option(
        "--lifetime", "LIFETIME", "the run ends with holdfast (owner), its session (session), or by itself (detached)"
    ),
    Option("--with-parent", None, "end the run when the process that started holdfast is gone"),
    Option("--with-process", "PID", "end the run when this process is gone, in place of --with-parent"),
    Option("--ready", "CONDITION", "ready for holdfast wait --ready: port:3000, log:REGEX or http:URL", many=True),
    Option("--ready-timeout", "DURATION", "with --detach: wait until it is ready; after this long, end it"),
    Option("--detach", None, "print the run id and return; the run goes on (lifetime detached, or session)", short="d"),
    Option("--state-dir", "PATH", "where the run is kept (default: HOLDFAST_STATE_DIR, or your own state directory)"),
    Option("--report", "PATH", "write the final report to this file, as JSON"),
    Option("--quiet", None, "print no line about how the run ended", short="q"),
    Option("--help", None, "print this text", short="h"),
)
# `options_of` puts these options together. Every other option of a run goes to make_spec as it was given.
_COMPOSED = ("--ready", "--env", "--env-keep", "--env-drop", "--stdin", "--pty", "--merge", "--label")
_AS_GIVEN = {option.flag: option.name for option in SPEC_OPTIONS if option.flag and option.flag not in _COMPOSED}


def spec_of(given: CommandLine) -> RunSpec:
    """The checked spec of a command line. UsageError or SpecError names the wrong option."""
    if not given.words:
        raise UsageError("no command was given", remedy="write holdfast run [OPTIONS] -- COMMAND [ARG]...")
    options = options_of(given)
    if given.has("--with-parent") or given.has("--with-process"):
        options["starter"] = _starter(options.get("lifetime"), given.last("--with-process"))
    return new_spec(given.words, options)


def options_of(given: CommandLine) -> SpecOptions:
    """The options for `make_spec` from a command line. UsageError names the wrong option."""
    if given.has("--pty") and given.has("--no-pty"):
        raise UsageError("--pty and --no-pty were both given", remedy="leave one of them out")
    options: SpecOptions = {name: given.last(flag) for flag, name in _AS_GIVEN.items() if given.has(flag)}  # type: ignore[assignment]
    if given.has("--env-inherit") and given.has("--in-container"):
        remedy = "name the variables that it needs: --env NAME"
        raise UsageError("--env-inherit would replace the environment of the container", remedy=remedy)
    options["env_keep"] = _listed(given, "--env-keep")
    options["env_drop"] = _listed(given, "--env-drop")
    options["merge"] = given.has("--merge")
    if given.has("--ready"):
        options["ready"] = given.all("--ready")
    if variables := _variables(given):
        options["env"] = variables
    if labels := dict(pair(text, "--label", "NAME=VALUE") for text in given.all("--label")):
        options["labels"] = labels
    options["pty"] = _wants_pty(given)
    if not options["pty"] or given.has("--stdin"):
        options["stdin"] = _stdin(given)
    if given.has("--detach"):
        options["lifetime"] = _detached(given.last("--lifetime"))
    return options


def _stdin(given: CommandLine) -> str:
    stdin = given.last("--stdin")
    if not given.has("--detach"):
        # In the foreground nobody could write to a pipe, so `pipe` can only be the name of a file.
        return "./pipe" if stdin == "pipe" else stdin or "inherit"
    if stdin == "inherit":
        remedy = "use null, a file, or pipe, to which holdfast attach can write"
        raise UsageError("--stdin inherit would hold the caller's stdin open after --detach", remedy=remedy)
    return stdin or "null"


def _detached(lifetime: str | None) -> str:
    if lifetime == "owner":
        remedy = "use --lifetime detached or session, or leave it out"
        raise UsageError("--lifetime owner would end the run as soon as --detach returns", remedy=remedy)
    return lifetime or "detached"


def _starter(lifetime: str | None, pid: str | None) -> tuple[int, int]:
    if lifetime == "detached":
        remedy = "leave one of them out, or name a session and use --lifetime session"
        raise UsageError("--with-parent ends the run with a process, and a detached run ends by itself", remedy=remedy)
    from ...values.starter import find_starter, this_process

    if pid is not None:
        if not pid.isascii() or not pid.isdigit() or not 0 < int(pid) < 1 << 31:
            raise UsageError(f"--with-process {pid!r} is no PID", remedy="write the number of a process")
        return this_process(int(pid))
    if (starter := find_starter()) is None:
        remedy = "leave it out, and use --timeout"
        message = "--with-parent cannot watch the process that started holdfast: it is outside of this PID namespace"
        raise UsageError(message, remedy=remedy)
    return starter


def _wants_pty(given: CommandLine) -> bool:
    if given.has("--pty") or given.has("--detach"):
        return given.has("--pty")
    others = given.has("--no-pty") or given.has("--stdin") or given.has("--merge")
    return not others and all(os.isatty(fd) for fd in (0, 1, 2))


def _variables(given: CommandLine) -> dict[str, str]:
    variables: dict[str, str] = {}
    inherited = os.environ.get(STATE_DIR)
    option = given.last("--state-dir")
    # A nested run is kept in the same state directory, whatever its working directory is.
    if option or (inherited and not os.path.isabs(inherited)):
        variables[STATE_DIR] = os.path.abspath(option or inherited or "")
    for path in given.all("--env-file"):
        from .environment_file import read_environment

        variables.update(read_environment(path))
    for text in given.all("--env"):
        name, value = (text, os.environ[text]) if text in os.environ else pair(text, "--env", "NAME=VALUE")
        variables[name] = value
    return variables


def _listed(given: CommandLine, flag: str) -> list[str]:
    return [word for text in given.all(flag) for word in text.split(",") if word]
