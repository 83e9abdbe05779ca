"""Retries by cause: after which ends a command is run again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from ..values.durations import parse_duration
from ..values.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..values.fields import Duration
    from .result import Result

_WORDS = frozenset(
    {
        *("failed", "timed_out", "lost"),
        *("exit", "signal", "spawn", "oom", "limit", "deadline", "idle", "guard", "host"),
    }
)


class Retry(NamedTuple):
    """Run a command again, at most `times` times in all, when its status or its cause is one of `on`.

    A lost run whose command was started is ambiguous: nobody knows whether the command did its work. It is not run
    again, unless `ambiguous` is set because the command may safely run twice. A cancelled run is never run again.
    """

    times: int = 3
    on: Sequence[str] = ("lost", "timed_out")
    ambiguous: bool = False
    pause: Duration = 0

    def run(self, attempt: Callable[[], Result]) -> Result:
        """Make attempts until one ends otherwise, or there is none left; the result of the last one."""
        self.check()
        pause_s = parse_duration(self.pause, field="retry.pause")
        result = attempt()
        for _ in range(self.times - 1):
            if not self.wants(result):
                break
            time.sleep(pause_s)
            result = attempt()
        return result

    def wants(self, result: Result) -> bool:
        """Whether the command is run again after this result."""
        if result.status == "cancelled" or not {result.status, result.cause} & set(self.on):
            return False
        return self.ambiguous or result.status != "lost" or result.outcome.started is None

    def check(self) -> None:
        """SpecError: a word of `on` is no status or cause after which a command can be run again."""
        wrong = [self.on] if isinstance(self.on, str) else [word for word in self.on if word not in _WORDS]
        if wrong or self.times < 1:
            what = f"{wrong[0]!r} in `on`" if wrong else f"times={self.times}"
            remedy = 'give a tuple such as on=("lost", "timed_out"), and times of at least 1'
            raise SpecError(f"retry: {what} is not possible", field="retry", remedy=remedy)
