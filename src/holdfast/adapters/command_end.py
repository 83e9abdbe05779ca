"""One command of an agent, from its start to its end: what every adapter that runs a command needs.

A framework knows fewer ends than Holdfast: an exit code, perhaps a timeout. `CommandEnd` has both. It is made from the
outcome in one place, so that no adapter guesses whether a code of 124 was the command's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..projections.exit_code import exit_code
from ..runs.blocking import run
from ..runs.shell_line import shell_argv as shell
from ..runs.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from ..runs.result import Result
    from ..values.options import SpecOptions

__all__ = ["CommandEnd", "end_of", "run_command", "shell", "start_command"]

# An agent waits for each of its commands: the grace is shorter than that of a service, and the output is bounded.
_DEFAULTS: SpecOptions = {"grace": 2.0, "max_output": 10 << 20, "on_max_output": "roll"}


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended, in the words that frameworks have."""

    status: str  # of the outcome: `succeeded`, `failed`, `timed_out`, `cancelled`, `lost`
    exit_code: int  # as `holdfast run` has it: 124 for a timeout, 125 for a lost run, 137 for a spent budget
    stdout: str
    stderr: str
    reason: str  # the outcome in a sentence; empty when there is no more to say than the exit code
    is_cut: bool  # whether output is missing: the run wrote more than its `max_output`
    run_id: str

    @property
    def timed_out(self) -> bool:
        """Whether the deadline or the idle timeout ended the command, whatever its exit code was then."""
        return self.status == "timed_out"

    @property
    def was_seen(self) -> bool:
        """Whether Holdfast saw the end of the command itself. If not, the exit code says nothing about the command."""
        return self.status in ("succeeded", "failed")


def run_command(argv: Sequence[str], **options: Unpack[SpecOptions]) -> CommandEnd:
    """Run a command until it is settled, in a blocking call. The options are those of `make_spec`."""
    chosen: SpecOptions = {**_DEFAULTS, **options}
    return end_of(run(argv, **chosen))


async def start_command(argv: Sequence[str], data: bytes | None = None, **options: Unpack[SpecOptions]) -> CommandEnd:
    """Run a command until it is settled, under asyncio or trio; `data` is its stdin.

    A cancelled caller ends the run by its ladder, and is cancelled when the tree is gone.
    """
    async with Supervisor() as supervisor:
        supervisor.leave_with("user", "the caller was cancelled")
        chosen: SpecOptions = {**_DEFAULTS, "stdin": "null" if data is None else "pipe", **options}
        started = await supervisor.start(argv, **chosen)
        if data is not None:
            await started.write_stdin(data)
            await started.close_stdin()
        return end_of(await started.result())


def end_of(result: Result) -> CommandEnd:
    """The end of a command from the result of its run."""
    output = result.report["output"]
    return CommandEnd(
        status=result.status,
        exit_code=exit_code(result.outcome),
        stdout=result.stdout.decode(errors="replace"),
        stderr=result.stderr.decode(errors="replace"),
        reason=result.reason or "",
        is_cut=bool(output["dropped_bytes"]),
        run_id=result.run_id,
    )
