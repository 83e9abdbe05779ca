"""The result of a settled run: outcome, output, and the report."""

from __future__ import annotations

from ..outcome import lost_output
from ..values.errors import RunError
from ..values.fast_imports import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from ..journal.facts import Fact
    from ..journal.reader import JournalReader
    from ..outcome import Outcome
    from ..values.report import Cause, Report, Status


_VERBS = {"timed_out": "timed out", "cancelled": "was cancelled", "lost": "was lost"}


class Result:
    """A settled run. `stdout` and `stderr` hold every byte from before the verdict; empty when they were streamed."""

    __slots__ = ("_reader", "_report", "facts", "outcome", "run_id", "stderr", "stdout")

    def __init__(
        self,
        run_id: str,
        outcome: Outcome,
        output: tuple[bytes, bytes],
        facts: tuple[Fact, ...],
        reader: JournalReader,
    ) -> None:
        self.run_id = run_id
        self.outcome = outcome
        self.stdout, self.stderr = output
        self.facts = facts  # the evidence: everything that was recorded, in order
        self._reader = reader  # only for what it has read: its descriptor may be closed by now
        self._report: Report | None = None

    @property
    def ok(self) -> bool:
        """Whether the run succeeded."""
        return self.status == "succeeded"

    @property
    def status(self) -> Status:
        """`succeeded`, `failed`, `timed_out`, `cancelled` or `lost`."""
        return self.outcome.status or "lost"

    @property
    def cause(self) -> Cause:
        """The cause of the status: `exit`, `signal`, `spawn`, `oom`, `limit`, `deadline`, `idle`, `user`, ..."""
        return self.outcome.cause or "guard"

    @property
    def reason(self) -> str | None:
        """The cause in a sentence, for people; None when there is no more to say."""
        return self.outcome.reason

    @property
    def exit_code(self) -> int | None:
        """The exit code of the command, also after a timeout; None when it died of a signal or nobody saw it end."""
        return self.outcome.exit_code

    @property
    def signal(self) -> int | None:
        """The signal that the command died of, from any sender; None when it exited or nobody saw it end."""
        return self.outcome.signal

    @property
    def report(self) -> Report:
        """The final report, ready for JSON."""
        if self._report is None:
            made: Any = report_of(self._reader, self.facts)
            self._report = made
        return self._report

    def check(self) -> Result:
        """Return this result if the run succeeded. RunError, which has the result: it failed, or output is missing.

        Output is missing when it could not be kept (a full disk, a limit on files), not when the spec drops it.
        """
        lost = lost_output(self.facts)
        if self.status == "succeeded" and lost is None:
            return self
        if self.status == "succeeded" and lost is not None:
            what = f"the run succeeded, but its output could not be kept: {lost}"
            remedy = "make room (disk, ulimit -f) and run it again"
        else:
            what = f"the run {_VERBS.get(self.status, self.status)}: {self.reason or _in_words(self)}"
            remedy = "its output is in error.result.stderr" if self.stderr else "error.result.report has the evidence"
        raise RunError(what, result=self, run_id=self.run_id, remedy=remedy)

    def __repr__(self) -> str:
        return f"<Result {self.run_id} {self.status}/{self.cause} exit_code={self.exit_code}>"


class TextResult(Result):
    """A settled run whose `stdout` and `stderr` are text; bytes that are no text became `\\ufffd`."""

    __slots__ = ()

    stdout: str  # type: ignore[assignment]
    stderr: str  # type: ignore[assignment]

    def __init__(self, result: Result, encoding: str) -> None:
        output = result.stdout.decode(encoding, "replace"), result.stderr.decode(encoding, "replace")
        reader = result._reader  # noqa: SLF001 - of the class above
        super().__init__(result.run_id, result.outcome, output, result.facts, reader)  # type: ignore[arg-type]

    def check(self) -> TextResult:
        """Return this result if the run succeeded. RunError otherwise, as for a result with bytes."""
        super().check()
        return self

    def lines(self) -> list[str]:
        """The lines of stdout, without line ends."""
        return self.stdout.splitlines()


def report_of(reader: JournalReader, facts: tuple[Fact, ...]) -> dict[str, Any]:
    """Make the report from these facts and from what a reader has seen."""
    from ..projections.report import output_seen, report  # here, because nobody asks for the report of most runs

    return report(reader.header, reader.spec, facts, output_seen(reader))


def _in_words(result: Result) -> str:
    if result.cause == "exit":
        return f"exit code {result.exit_code}"
    if result.cause == "signal":
        return f"signal {result.signal}"
    return result.cause
