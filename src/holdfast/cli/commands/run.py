"""`holdfast run`: a command in the foreground."""

from __future__ import annotations

import errno
import os

from ...outcome import decide, lost_output
from ...projections.exit_code import OWN_FAILURE, exit_code
from ...values.environment import STATE_DIR
from ...values.fast_imports import TYPE_CHECKING
from ...values.options import OPTIONS as SPEC_OPTIONS
from ...values.spec_cache import new_spec
from ..parsing.options import Option, Parsed, UsageError, pair, parse, usage
from ..printing import messages
from ..starting.storage import start
from ..terminal.foreground import Foreground
from ..terminal.interrupts import STOPS, Interrupts

if TYPE_CHECKING:
    from typing import Any

    from ...outcome import Outcome
    from ...runs.live import LiveRun
    from ...state.directory import StateDirectory
    from ...values.options import SpecOptions
    from ...values.spec import RunSpec
    from ..starting.report_file import ReportFile
    from ..starting.storage import StartedRun
    from ..terminal.keyboard import Keyboard

OPTIONS = (
    Option("--timeout", "DURATION", "end the run after this long"),
    Option("--max-timeout", "DURATION", "no extension goes past this"),
    Option("--idle-timeout", "DURATION", "end the run after this long without activity"),
    Option("--idle-counts", "KINDS", "what is activity: output,cpu,heartbeat (default output)"),
    Option("--warn-before", "DURATION", "send a signal this long before the timeout"),
    Option("--warn-signal", "SIGNAL", "that signal (default USR1)"),
    Option("--grace", "DURATION", "from SIGTERM to SIGKILL (default 10s)"),
    Option("--ladder", "RUNGS", "the signals of the end, such as INT:2s,TERM:8s,KILL"),
    Option("--drain", "DURATION", "wait this long for output after the end (default 2s)"),
    Option("--drain-idle", "DURATION", "and this long for more of it (default 250ms)"),
    Option("--kill-wait", "DURATION", "how long SIGKILL may take (default 5s)"),
    Option("--stragglers", "POLICY", "processes left after the command: kill, wait, leave (default kill)"),
    Option("--cwd", "DIRECTORY", "where to run it"),
    Option("--env", "NAME=VALUE", "set a variable", many=True),
    Option("--env-file", "PATH", "set the variables of a file of NAME=VALUE lines", many=True),
    Option("--env-keep", "PATTERN", "pass a variable on that is stripped by default", many=True),
    Option("--env-drop", "PATTERN", "strip a variable", many=True),
    Option("--stdin", "null|inherit|PATH", "the command's stdin (default inherit); with --detach null|pipe|PATH"),
    Option("--pty", None, "give it a terminal (default: when stdin, stdout, stderr are one)"),
    Option("--no-pty", None, "never give it a terminal"),
    Option("--merge", None, "stderr goes to stdout, in the order of writing"),
    Option("--late", None, "also pass on what is written after the verdict"),
    Option("--memory", "SIZE", "end the run when its tree uses more"),
    Option("--pids", "COUNT", "end the run when its tree has more processes"),
    Option("--max-output", "SIZE", "end the run when it writes more"),
    Option("--on-max-output", "stop|drop", "or drop the rest and count it"),
    Option("--in-container", "NAME", "run it inside this running container; see docs/containers.md"),
    Option("--runtime", "COMMAND", "the container's runtime: podman (default) or docker, and options of its own"),
    Option("--session", "NAME", "the session it belongs to"),
    Option("--label", "NAME=VALUE", "a label, for the report", many=True),
    Option("--name", "NAME", "a name, for the report"),
    Option("--id", "ID", "the run id (default: a new one)"),
    Option("--lifetime", "LIFETIME", "it ends with holdfast (owner), its session (session), or by itself (detached)"),
    Option("--detach", None, "print the run id and return; the run goes on (lifetime detached, or session)"),
    Option("--state-dir", "PATH", "where the run is kept (default: HOLDFAST_STATE_DIR, or your own state directory)"),
    Option("--report", "PATH", "write the final report there, as JSON"),
    Option("--quiet", None, "no line about how it ended"),
    Option("--help", None, "this text"),
)
_HEAD = """\
Run a command in the foreground: its output passes through unchanged, and it always ends well.

usage: holdfast run [OPTIONS] [--] COMMAND [ARG]...

"""
_TAIL = """
Durations: 250ms, 1.5s, 10m, 2h; a bare number is seconds. Sizes: 64K, 10M, 2G.
Ctrl-C once asks the run to end, twice ends it now.

Exit codes: the command's own; 124 timed out; 125 Holdfast failed, or the run was lost; 126 not executable;
127 not found; 128+n died of signal n; 130 cancelled by SIGINT, 143 cancelled otherwise; 137 over a budget.
"""
# These are put together below. Every other option of a run goes to make_spec as it was given.
_COMPOSED = ("--env", "--env-keep", "--env-drop", "--stdin", "--pty", "--merge", "--label")
_AS_GIVEN = {option.flag: option.name for option in SPEC_OPTIONS if option.flag and option.flag not in _COMPOSED}


def run(arguments: list[str]) -> int:
    """Run the command and return the exit code. HoldfastError when it could not be started."""
    given = parse(OPTIONS, arguments)
    if given.has("--help"):
        messages.show(usage(_HEAD, OPTIONS, _TAIL))
        return 0
    spec = spec_of(given)
    if given.has("--detach"):
        from ..starting.detach import detach

        return detach(given, spec)
    report = _report_file(given)
    interrupts = Interrupts()
    return _Command(spec, given, interrupts, report).run()


def spec_of(given: Parsed) -> RunSpec:
    """The checked spec of a command line. UsageError or SpecError names the option that is wrong."""
    if not given.words:
        raise UsageError("no command was given", remedy="write holdfast run [OPTIONS] -- COMMAND [ARG]...")
    return new_spec(given.words, options_of(given))


def options_of(given: Parsed) -> SpecOptions:
    """The options of `make_spec` that a command line stands for. UsageError names what is wrong."""
    if given.has("--pty") and given.has("--no-pty"):
        raise UsageError("--pty and --no-pty were both given", remedy="leave one of them out")
    options: SpecOptions = {name: given.last(flag) for flag, name in _AS_GIVEN.items() if given.has(flag)}  # type: ignore[assignment]
    options["env_keep"] = _listed(given, "--env-keep")
    options["env_drop"] = _listed(given, "--env-drop")
    options["merge"] = given.has("--merge")
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


def _stdin(given: Parsed) -> str:
    stdin = given.last("--stdin")
    if not given.has("--detach"):
        # Only a file can be meant by `pipe`: in the foreground there is none to write to.
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


def _wants_pty(given: Parsed) -> bool:
    if given.has("--pty") or given.has("--detach"):
        return given.has("--pty")
    others = given.has("--no-pty") or given.has("--stdin") or given.has("--merge")
    return not others and all(os.isatty(fd) for fd in (0, 1, 2))


def _variables(given: Parsed) -> dict[str, str]:
    variables: dict[str, str] = {}
    inherited = os.environ.get(STATE_DIR)
    option = given.last("--state-dir")
    # A run started inside this one is kept beside it, wherever that one's working directory is.
    if option or (inherited and not os.path.isabs(inherited)):
        variables[STATE_DIR] = os.path.abspath(option or inherited or "")
    for path in given.all("--env-file"):
        from ..starting.environment_file import read_environment

        variables.update(read_environment(path))
    variables.update(pair(text, "--env", "NAME=VALUE") for text in given.all("--env"))
    return variables


def _listed(given: Parsed, flag: str) -> list[str]:
    return [word for text in given.all(flag) for word in text.split(",") if word]


def _report_file(given: Parsed) -> ReportFile | None:
    path = given.last("--report")
    if path is None:
        return None
    from ..starting.report_file import ReportFile

    return ReportFile(path)


def _is_plain_end(outcome: Outcome) -> bool:
    """Whether the exit code says everything. Most runs end so, and do not import the sentences."""
    gone = outcome.tree is not None and outcome.tree.detail["how"] == "gone"
    return outcome.cause in ("exit", "signal") and outcome.stragglers is None and gone


class _Command:
    """One foreground run from start to exit code."""

    def __init__(self, spec: RunSpec, given: Parsed, interrupts: Interrupts, report: ReportFile | None) -> None:
        self.spec = spec
        self.given = given
        self.interrupts = interrupts
        self.report = report
        self.quiet = given.has("--quiet")
        self.late = given.has("--late")

    def run(self) -> int:
        early = self.interrupts.take()
        if stops := [number for number in early if number in STOPS]:
            return self._never_start(stops[0])
        live, state = self._start()
        try:
            foreground = self._stay(live, state, early)
            code = self._tell(live, foreground)
            return code if self.report is None else self._write_report(live.report(), code, kept=state is not None)
        finally:
            live.reap(wait=live.ended)
            live.close()

    def _start(self) -> StartedRun:
        if not self.spec.pty:
            return start(self.given, self.spec)
        from ..terminal.terminal import window_size

        return start(self.given, self.spec, window_size())

    def _never_start(self, number: int) -> int:
        """A stop that was asked before the start: the command is never executed."""
        from ..starting.never_started import facts_of, report_of

        facts = facts_of(number)
        outcome = decide(facts)
        if not self.quiet:
            messages.say(f"{outcome.reason}; run {self.spec.run_id}")
        code = exit_code(outcome)
        return code if self.report is None else self._write_report(report_of(self.spec, facts), code, kept=False)

    def _stay(self, live: LiveRun, state: StateDirectory | None, early: bytes) -> Foreground:
        keyboard: Keyboard | None = None
        if self.spec.pty:
            from ..terminal.keyboard import Keyboard

            keyboard = Keyboard(live)
        foreground = Foreground(live, self.interrupts, keyboard, state=state, late=self.late, quiet=self.quiet)
        try:
            if keyboard is not None:
                keyboard.enter()
            foreground.take_signals(early)
            foreground.until_settled()
        finally:
            if keyboard is not None:
                keyboard.restore()
            foreground.close()
        return foreground

    def _tell(self, live: LiveRun, foreground: Foreground) -> int:
        """Say how it ended when the exit code alone does not, and return that code."""
        broken = {name: sink.broken for name, sink in foreground.sinks.items() if sink.broken}
        reader_gone = any(number in (errno.EPIPE, errno.EIO) for number in broken.values())
        failures = [f"{name}: {os.strerror(number)}" for name, number in broken.items()]
        if foreground.undelivered and live.outcome.cause == "exit" and not foreground.given_up_by:
            failures.append("its reader did not read in time")
        lost = None if reader_gone else lost_output(live.facts)
        if lost:
            from ...wording.sentences import output_lost

            messages.say(f"{output_lost(lost)}; run {self.spec.run_id}")
        if failures and not reader_gone:
            messages.say(f"output could not be passed on: {', '.join(failures)}; run {self.spec.run_id}")
            return OWN_FAILURE
        if not self.quiet and not reader_gone and not _is_plain_end(live.outcome):
            self._say_end(live.outcome)
        if foreground.given_up_by:
            return 128 + foreground.given_up_by
        return OWN_FAILURE if lost and live.outcome.cause == "exit" else exit_code(live.outcome)

    def _say_end(self, outcome: Outcome) -> None:
        from ...wording.sentences import ended

        if (sentence := ended(outcome, self.spec)) is not None:
            messages.say(sentence)

    def _write_report(self, report: dict[str, Any], code: int, *, kept: bool) -> int:
        assert self.report is not None
        if self.report.is_special:
            self.interrupts.release()
        try:
            self.report.write(report)
        except OSError as error:
            what = f"the report cannot be written to {self.report.path!r}: {error.strerror}"
            run_id = self.spec.run_id
            remedy = f"holdfast show --json {run_id} prints it" if kept else "it is lost: name another file"
            messages.say(f"{what}; {remedy}; run {run_id}")
            return code or OWN_FAILURE
        return code
