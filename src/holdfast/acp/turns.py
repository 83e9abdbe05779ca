"""Turns of ACP: the prompts that are under way, their clocks, and how each one ends. Pure: the proxy acts.

Theory of operation. A turn begins with `session/prompt`. In version 1 the answer to that request ends it. In version 2
the answer only accepts the prompt, and a `state_update` with state `idle` ends the turns of the session.

A turn has two clocks: the prompt timeout runs from the prompt, the idle timeout from the agent's last sign of life in
this session. The idle clock rests while the agent itself waits for an answer, such as a permission that a person gives.
When a clock runs out, or the editor cancels, the turn is *ending*: the first reason decides, later ones join it. The
agent is told (`session/cancel`) and has the grace to end the turn by itself. After the grace the turn is overdue: the
proxy ends it for the agent, and then ends the agent, which does not listen.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from ..journal.facts import make_fact
from ..outcome import decide

if TYPE_CHECKING:
    from ..journal.facts import Fact
    from ..outcome import Outcome

NEVER = math.inf


class Turn:
    """One prompt that is under way."""

    def __init__(self, key: str, session_id: str, now: float) -> None:
        self.key = key
        self.session_id = session_id
        self.begun_at = self.active_at = now
        self.is_accepted = False  # version 2: the prompt was answered, the turn goes on
        self.ending: Fact | None = None
        self.overdue_at = NEVER
        self.asking: set[str] = set()  # requests of the agent that the editor, or we, have not answered

    def end_with(self, fact: Fact, overdue_at: float) -> bool:
        """The turn is to end for this reason; False when it is ending already."""
        if self.ending is not None:
            return False
        self.ending, self.overdue_at = fact, overdue_at
        return True

    def outcome(self, started: Fact | None) -> Outcome:
        """The outcome of a turn that is ending. `started` is the start of its agent."""
        assert self.ending is not None
        return decide([fact for fact in (started, self.ending) if fact is not None])


class Turns:
    """The turns of one agent."""

    def __init__(self, *, prompt_timeout_s: float | None, idle_timeout_s: float | None, grace_s: float) -> None:
        self._prompt_timeout_s = prompt_timeout_s
        self._idle_timeout_s = idle_timeout_s
        self._grace_s = grace_s
        self.open: dict[str, Turn] = {}

    def begin(self, key: str, session_id: str, now: float) -> None:
        """A prompt was sent."""
        self.open[key] = Turn(key, session_id, now)

    def of_session(self, session_id: str | None) -> list[Turn]:
        """The open turns of a session."""
        return [turn for turn in self.open.values() if turn.session_id == session_id]

    def close(self, turn: Turn) -> None:
        """The turn is over."""
        self.open.pop(turn.key, None)

    def active(self, session_id: str | None, now: float) -> None:
        """The agent gave a sign of life in this session."""
        for turn in self.of_session(session_id):
            turn.active_at = now

    def asked(self, session_id: str | None, key: str) -> None:
        """The agent asks something in this session, and waits for the answer."""
        for turn in self.of_session(session_id):
            turn.asking.add(key)

    def answered(self, key: str, now: float) -> None:
        """The agent's request was answered: it goes on."""
        for turn in self.open.values():
            if key in turn.asking:
                turn.asking.discard(key)
                turn.active_at = now

    def cancel(self, session_id: str | None, now: float) -> None:
        """The editor cancels the turns of a session."""
        for turn in self.of_session(session_id):
            asked = {"signal": 0, "by_pid": 0, "by_uid": 0}  # nobody of this machine: it came by the protocol
            fact = make_fact("stop_asked", _clock_ns(), cause="user", reason="session/cancel", **asked)
            turn.end_with(fact, now + self._grace_s)

    def next_due(self) -> float:
        """When the next clock runs out."""
        return min((min(turn.overdue_at, self._expires_at(turn)[0]) for turn in self.open.values()), default=NEVER)

    def expire(self, now: float) -> list[Turn]:
        """Turns whose time has run out now: they are ending from here on."""
        expired = []
        for turn in self.open.values():
            at, kind, limit_s = self._expires_at(turn)
            fact = make_fact(kind, _clock_ns(), limit_ns=round(limit_s * 1e9)) if at <= now else None
            if fact is not None and turn.end_with(fact, now + self._grace_s):
                expired.append(turn)
        return expired

    def overdue(self, now: float) -> list[Turn]:
        """Turns that did not end within the grace."""
        return [turn for turn in self.open.values() if turn.overdue_at <= now]

    def _expires_at(self, turn: Turn) -> tuple[float, str, float]:
        """When the first of the two clocks runs out, which one it is, and its limit."""
        if turn.ending is not None:
            return NEVER, "deadline", NEVER
        deadline_s, idle_s = self._prompt_timeout_s or NEVER, self._idle_timeout_s or NEVER
        idle_at = NEVER if turn.asking else turn.active_at + idle_s
        return min((turn.begun_at + deadline_s, "deadline", deadline_s), (idle_at, "idle", idle_s))


def _clock_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
