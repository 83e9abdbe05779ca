"""Types of the tools' answers (`structuredContent`); the outcome in them comes from the MCP projection."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Verdict(BaseModel):
    """The state of a run and its outcome; `status` is null before the verdict."""

    run_id: str = Field(description="names this run in other tools")
    state: str = Field(description="starting, running, stopping (decided, its processes are being ended) or settled")
    status: str | None = Field(
        description="succeeded, failed, timed_out, cancelled or lost; null while the run is not decided"
    )
    cause: str | None = Field(description="why: exit, signal, spawn, oom, limit, deadline, idle, user, shutdown, ...")
    reason: str | None = Field(description="the cause as a sentence")
    exit_code: int | None = Field(description="the exit code of the command; null when it did not exit")
    signal: int | None = Field(description="the signal that killed the command; null when none did")
    escalated: bool = Field(description="whether SIGKILL was needed")


class RunAnswer(Verdict):
    """A run, with the end of its output."""

    argv: list[str] | None
    name: str | None
    started_at: str | None
    duration_s: float | None
    waiting_for_input: bool | None = Field(
        description="true: it waits for input on its stdin or terminal: use `send_input`; null: unknown, or over"
    )
    tree: str = Field(description="gone: no process of this run is alive; survivors or unknown otherwise")
    output: str = Field(description="the last part of its output, both streams together")
    output_offset: int = Field(
        description="where `output` begins; when above 0, the tool `output` reads what comes before it"
    )
    output_bytes: int = Field(
        description="how many bytes were written so far; pass it as `offset` to the tool `output` for new output"
    )
    truncated: bool = Field(description="whether `output` is only a part of the output")
    late_bytes: int = Field(description="bytes written after the verdict: kept in the record, not shown here")
    dropped_bytes: int = Field(description="bytes over the output limit: not kept")


class OutputAnswer(Verdict):
    """A page of a run's output."""

    text: str
    offset: int = Field(description="where `text` begins, in bytes")
    next_offset: int = Field(description="pass it as `offset` to read on")
    total_bytes: int = Field(description="how many bytes were written so far")
    more: bool = Field(description="whether there are already bytes after `next_offset`")
    complete: bool = Field(description="whether this page reaches the end of the output for good")


class InputAnswer(Verdict):
    """The result of sending input."""

    accepted: bool = Field(description="false: the command has closed its stdin, or is over")


class RunLine(BaseModel):
    """A run as an entry of a list."""

    run_id: str
    state: str | None
    status: str | None
    cause: str | None
    exit_code: int | None
    argv: list[str] | None
    name: str | None
    started_at: str | None
    duration_s: float | None


class ListAnswer(BaseModel):
    """A page of runs, newest first."""

    runs: list[RunLine]
    cursor: str | None = Field(description="pass it to get the next page; null on the last one")


class ChangedRun(RunLine):
    """A run that is live, or ended since the last look."""

    reason: str | None = Field(description="the cause as a sentence")
    output: str = Field(description="the end of its output, both streams together")
    truncated: bool = Field(description="whether there is output before `output`")


class ChangesAnswer(BaseModel):
    """The changes of a session since its last look, newest first."""

    since: str | None = Field(description="when the session last looked; null: never before")
    runs: list[ChangedRun]
    left_out: int = Field(description="how many more runs changed; `list` shows them")
