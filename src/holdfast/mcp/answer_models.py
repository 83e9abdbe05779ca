"""What the tools answer, as `structuredContent`. The outcome in it is the projection's, and nothing else's."""

from __future__ import annotations

from pydantic import BaseModel, Field


class Verdict(BaseModel):
    """How far a run has come, and how it ended. `status` is null as long as that is not decided."""

    run_id: str = Field(description="what the other tools take to name this run")
    state: str = Field(description="starting, running, stopping (decided, processes are being ended) or settled")
    status: str | None = Field(description="succeeded, failed, timed_out, cancelled or lost; null while it runs")
    cause: str | None = Field(description="why: exit, signal, spawn, oom, limit, deadline, idle, user, shutdown, ...")
    reason: str | None = Field(description="the same for people")
    exit_code: int | None = Field(description="what the command exited with, if it did")
    signal: int | None = Field(description="the signal it died of, if it did")
    escalated: bool = Field(description="whether it had to be killed")


class RunAnswer(Verdict):
    """A run, with the end of its output."""

    argv: list[str] | None
    name: str | None
    started_at: str | None
    duration_s: float | None
    waiting_for_input: bool | None = Field(
        description="true: it is blocked reading its stdin or terminal: use `send_input`; null: not known, or over"
    )
    tree: str = Field(description="gone: no process of this run is alive; survivors or unknown otherwise")
    output: str = Field(description="the last part of what it wrote, both streams together")
    output_offset: int = Field(description="where `output` begins; more than 0: read what is before it with `output`")
    output_bytes: int = Field(description="how many bytes there are so far; pass it to `output` for what comes next")
    truncated: bool = Field(description="whether `output` is not all there is")
    late_bytes: int = Field(description="written after the verdict: kept, and no part of the output")
    dropped_bytes: int = Field(description="over the output limit: not kept")


class OutputAnswer(Verdict):
    """A part of what a run wrote."""

    text: str
    offset: int = Field(description="where `text` begins, in bytes")
    next_offset: int = Field(description="pass it as `offset` for what follows")
    total_bytes: int = Field(description="how many bytes there are by now")
    more: bool = Field(description="whether there are bytes after `next_offset` already")
    complete: bool = Field(description="whether this reaches the end, and nothing will follow")


class InputAnswer(Verdict):
    """What became of input."""

    accepted: bool = Field(description="false: the command has closed its stdin, or is over")


class RunLine(BaseModel):
    """A run in a list."""

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
    """Runs, the newest first."""

    runs: list[RunLine]
    cursor: str | None = Field(description="pass it for the next page; null at the end")
