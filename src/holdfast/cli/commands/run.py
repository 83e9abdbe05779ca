"""`holdfast run`: run a command in the foreground, from its start to its exit code."""

from __future__ import annotations

import errno
import os
import select
import time

from ...outcome import decide, lost_output
from ...projections.exit_code import OWN_FAILURE, exit_code
from ...values.environment import RUN_ID
from ...values.fast_imports import TYPE_CHECKING
from ...values.signals import STOPS
from ...values.spec import public_spec
from ..parsing.options import UsageError, parse, usage
from ..parsing.run_options import OPTIONS, spec_of
from ..starting.start import detach, start
from ..terminal.foreground_loop import ForegroundLoop
from ..terminal.signal_pipe import SignalPipe

if TYPE_CHECKING:
    from typing import Any

    from ...outcome import Outcome
    from ...runs.live import LiveRun
    from ...state.directory import StateDirectory
    from ...values.spec import RunSpec
    from ..parsing.options import CommandLine
    from ..starting.report_file import ReportFile
    from ..starting.start import StartedRun
    from ..terminal.terminal_input import TerminalInput

_HEAD = """\
Run a command in the foreground: its output passes through unchanged, and it always ends well.

usage: holdfast run [OPTIONS] [--] COMMAND [ARG]...

"""
_UNRECORDED = "the disk of the state directory does not answer: the record of this run is whole only when it does again"
TAIL = """
Durations: 250ms, 1.5s, 10m, 1h30m; a bare number is seconds. Sizes: 64K, 10M, 2G.
Ctrl-C once asks the run to end, twice ends it now.

Exit codes: the command's own; 124 timed out; 125 Holdfast failed, or the run was lost; 126 not executable;
127 not found; 128+n died of signal n; 130 cancelled by SIGINT, 143 cancelled otherwise; 137 over a budget.
"""


def run(arguments: list[str]) -> int:
    """Run the command line after `run` and return the exit code. HoldfastError when the command cannot be started."""
    given = parse(OPTIONS, arguments)
    if given.has("--help"):
        from ..printing.messages import show

        show(usage(_HEAD, OPTIONS, TAIL))
        return 0
    return conduct(given)


def conduct(given: CommandLine) -> int:
    """Run the command of a parsed command line and return the exit code. HoldfastError: it cannot be started."""
    spec = spec_of(given)
    within_s = _ready_timeout(given)
    if given.has("--detach"):
        code = detach(given, spec)
        return code if within_s is None else _until_ready(given, spec, within_s)
    report = _report_file(given)
    signals = SignalPipe()
    return _ForegroundCommand(spec, given, signals, report).run()


def _ready_timeout(given: CommandLine) -> float | None:
    if not given.has("--ready-timeout"):
        return None
    if not given.has("--detach"):
        raise UsageError("--ready-timeout is for background runs", remedy="add --detach, or leave it out")
    from ..following.ready_start import ready_timeout

    return ready_timeout(given)


def _until_ready(given: CommandLine, spec: RunSpec, within_s: float) -> int:
    from ...state.directory import StateDirectory
    from ..following.ready_start import until_ready
    from ..terminal.signal_pipe import release_signals

    release_signals()  # Ctrl-C ends the waiting, and the run goes on
    return until_ready(StateDirectory.open(given.last("--state-dir")), spec.run_id, within_s)


def _report_file(given: CommandLine) -> ReportFile | None:
    path = given.last("--report")
    if path is None:
        return None
    from ..starting.report_file import ReportFile

    return ReportFile(path)


def _say(text: str) -> None:
    """Print one line to stderr. The messages are imported here, because most runs say nothing."""
    from ..printing.messages import say

    say(text)


def _why_undelivered(foreground: ForegroundLoop) -> str:
    return "a signal ended the wait for its reader" if foreground.given_up_by else "its reader did not read in time"


def _takes_a_line() -> bool:
    """Whether stderr takes a line now. With `2>&1 |` it may be a full pipe that nobody reads: a write would hang."""
    poll = select.poll()
    poll.register(2, select.POLLOUT)
    return bool(poll.poll(0))


def _is_plain_end(outcome: Outcome) -> bool:
    """Whether the exit code says everything about the end. Then the sentences need not be imported."""
    gone = outcome.tree is not None and outcome.tree.detail["how"] == "gone"
    return outcome.cause in ("exit", "signal") and outcome.stragglers is None and gone


class _ForegroundCommand:
    """One foreground run from start to exit code."""

    def __init__(self, spec: RunSpec, given: CommandLine, signals: SignalPipe, report: ReportFile | None) -> None:
        self.spec = spec
        self.given = given
        self.signals = signals
        self.report = report
        self.quiet = given.has("--quiet")
        self.late = given.has("--late")
        # Inside a run the socket is that of an outer program's manager, which would not take our word.
        self.has_manager = "NOTIFY_SOCKET" in os.environ and RUN_ID not in os.environ

    def run(self) -> int:
        early = self.signals.take()
        if stops := [number for number in early if number in STOPS]:
            return self._never_start(stops[0])
        live, state = self._start()
        try:
            if self.has_manager:
                self._tell_manager()
            foreground = self._stay(live, state, early)
            code = self._tell(live, foreground, kept=state is not None)
            if self.has_manager:
                self._tell_manager(live.outcome, code)
            return code if self.report is None else self._write_report(live.report(), code, kept=state is not None)
        finally:
            live.reap(wait=live.ended)
            live.close()

    def _tell_manager(self, outcome: Outcome | None = None, code: int = 0) -> None:
        from ..printing.service_status import tell_ended, tell_started

        if outcome is None:
            tell_started(self.spec.run_id)
        else:
            tell_ended(outcome, self.spec.run_id, code)

    def _start(self) -> StartedRun:
        if not self.spec.pty:
            return start(self.given, self.spec)
        from ..terminal.outer_terminal import window_size

        return start(self.given, self.spec, window_size())

    def _never_start(self, number: int) -> int:
        """Cancel the run without executing the command: a signal came before the start. Returns the exit code."""
        from ...journal.unstarted import facts_of, signalled

        facts = facts_of(signalled(number))
        outcome = decide(facts)
        if not self.quiet:
            _say(f"{outcome.reason}; run {self.spec.run_id}")
        code = exit_code(outcome)
        if self.report is None:
            return code
        from ...projections.report import report

        header = {"run_id": self.spec.run_id, "wall_ns": time.time_ns(), "boottime_ns": facts[0].at_ns}
        return self._write_report(report(header, public_spec(self.spec), facts), code, kept=False)

    def _stay(self, live: LiveRun, state: StateDirectory | None, early: bytes) -> ForegroundLoop:
        terminal_input: TerminalInput | None = None
        if self.spec.pty:
            from ..terminal.terminal_input import TerminalInput

            terminal_input = TerminalInput(live)
        foreground = ForegroundLoop(live, self.signals, terminal_input, state=state, late=self.late, quiet=self.quiet)
        try:
            if terminal_input is not None:
                terminal_input.enter()
            foreground.take_signals(early)
            foreground.until_settled()
        finally:
            if terminal_input is not None:
                terminal_input.restore()
            foreground.close()
        return foreground

    def _tell(self, live: LiveRun, foreground: ForegroundLoop, *, kept: bool) -> int:
        """Say how the run ended, if its exit code does not say it, and return the exit code."""
        broken = {name: writer.broken for name, writer in foreground.writers.items() if writer.broken}
        reader_gone = any(number in (errno.EPIPE, errno.EIO) for number in broken.values())
        failures = [f"{name}: {os.strerror(number)}" for name, number in broken.items()]
        if foreground.undelivered:
            failures.append(_why_undelivered(foreground))
        if foreground.undelivered and not _takes_a_line():
            return self._code(live.outcome, foreground, complete=False)
        lost = None if reader_gone else lost_output(live.facts)
        if lost:
            from ...wording.sentences import output_lost

            _say(f"{output_lost(lost)}; run {self.spec.run_id}")
        if live.is_unrecorded and not reader_gone:
            _say(f"{_UNRECORDED}; run {self.spec.run_id}")
        if failures and not reader_gone:
            self._say_undelivered(failures, foreground.count_undelivered(), kept=kept)
            if broken:
                return OWN_FAILURE
        # A run that never began, or was lost, is not the command's end: without a line nobody could know what happened.
        is_told = not self.quiet or live.outcome.cause == "spawn" or live.outcome.status == "lost"
        if is_told and not reader_gone and not _is_plain_end(live.outcome):
            self._say_end(live.outcome)
        return self._code(live.outcome, foreground, complete=not lost and not foreground.undelivered)

    def _code(self, outcome: Outcome, foreground: ForegroundLoop, *, complete: bool) -> int:
        """The exit code: 125 takes the place of the command's own exit code when output is missing."""
        if foreground.given_up_by:
            return 128 + foreground.given_up_by
        return exit_code(outcome) if complete or outcome.cause != "exit" else OWN_FAILURE

    def _say_undelivered(self, failures: list[str], count: int, *, kept: bool) -> None:
        run_id = self.spec.run_id
        where = f"holdfast logs {run_id} has them" if kept else "they are lost, because this run is not kept"
        what = f"{count} bytes were not delivered; {where}"
        _say(f"output could not be passed on: {', '.join(failures)}; {what}; run {run_id}")

    def _say_end(self, outcome: Outcome) -> None:
        from ...wording.sentences import ended

        if (sentence := ended(outcome, self.spec)) is not None:
            _say(sentence)

    def _write_report(self, report: dict[str, Any], code: int, *, kept: bool) -> int:
        assert self.report is not None
        if self.report.is_special:
            self.signals.release()
        try:
            self.report.write(report)
        except OSError as error:
            what = f"the report cannot be written to {self.report.path!r}: {error.strerror}"
            run_id = self.spec.run_id
            remedy = f"holdfast show --json {run_id} prints it" if kept else "it is lost: name another file"
            _say(f"{what}; {remedy}; run {run_id}")
            return code or OWN_FAILURE
        return code
