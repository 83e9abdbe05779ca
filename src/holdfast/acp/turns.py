"""Turns of ACP: which prompts are under way, when their time is over, and how they end. Pure: the proxy acts.

Theory of operation. A turn begins with `session/prompt`. In version 1 the answer to that request ends it. In version 2
the answer only accepts the prompt, and a `state_update` with state `idle` ends the turns of the session.

A turn has two clocks: the prompt timeout runs from the prompt, the idle timeout from the agent's last sign of life in
this session. The idle clock rests while the agent itself waits for an answer, such as a permission that a person gives.
When a clock runs out, or the editor cancels, the turn is *ending*: the first reason decides, and later reasons change
nothing. The agent is told (`session/cancel`) and has the grace to end the turn by itself. After the grace the turn is
overdue: the proxy ends the turn for the agent, and then ends the agent, because it does not listen.
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
        """Mark the turn as ending for this reason; False, without a change, when it is ending already."""
        if self.ending is not None:
            return False
        self.ending, self.overdue_at = fact, overdue_at
        return True

    def outcome(self, started: Fact | None) -> Outcome:
        """The outcome of a turn that is ending. `started` is the fact that its agent has started."""
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
        """Begin a turn: the editor has sent a prompt."""
        self.open[key] = Turn(key, session_id, now)

    def of_session(self, session_id: str | None) -> list[Turn]:
        """The open turns of a session."""
        return [turn for turn in self.open.values() if turn.session_id == session_id]

    def close(self, turn: Turn) -> None:
        """Remove a turn that is over."""
        self.open.pop(turn.key, None)

    def active(self, session_id: str | None, now: float) -> None:
        """Restart the idle clock of this session's turns: the agent gave a sign of life."""
        for turn in self.of_session(session_id):
            turn.active_at = now

    def asked(self, session_id: str | None, key: str) -> None:
        """Stop the idle clock of this session's turns: the agent asks something, and waits for the answer."""
        for turn in self.of_session(session_id):
            turn.asking.add(key)

    def answered(self, key: str, now: float) -> None:
        """Note that a request of the agent was answered, and restart the idle clock of its turns."""
        for turn in self.open.values():
            if key in turn.asking:
                turn.asking.discard(key)
                turn.active_at = now

    def cancel(self, session_id: str | None, now: float) -> None:
        """Mark the turns of a session as ending: the editor cancels them."""
        for turn in self.of_session(session_id):
            asked = {"signal": 0, "by_pid": 0, "by_uid": 0}  # no process asked: the request came by the protocol
            fact = make_fact("stop_asked", _clock_ns(), cause="user", reason="session/cancel", **asked)
            turn.end_with(fact, now + self._grace_s)

    def next_due(self) -> float:
        """When the next clock or grace runs out; NEVER when none runs."""
        return min((min(turn.overdue_at, self._expires_at(turn)[0]) for turn in self.open.values()), default=NEVER)

    def expire(self, now: float) -> list[Turn]:
        """Mark the turns whose time has run out as ending, and return them."""
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
        """When the first of the two clocks runs out, its kind, and its limit; NEVER for a turn that is ending."""
        if turn.ending is not None:
            return NEVER, "deadline", NEVER
        deadline_s, idle_s = self._prompt_timeout_s or NEVER, self._idle_timeout_s or NEVER
        idle_at = NEVER if turn.asking else turn.active_at + idle_s
        return min((turn.begun_at + deadline_s, "deadline", deadline_s), (idle_at, "idle", idle_s))


def _clock_ns() -> int:
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)
