"""The ladder as people write it, `INT:2s,TERM:8s,KILL`. Only the guard climbs it."""

from __future__ import annotations

from .durations import format_duration, parse_duration
from .errors import SpecError
from .fast_imports import TYPE_CHECKING, Iterable, NamedTuple
from .fast_imports import signal as _signal
from .fields import Duration, listed
from .signals import parse_signal, signal_name

if TYPE_CHECKING:
    from typing import Any

Ladder = str | Iterable[tuple[str | int, Duration]]
MOST_RUNGS = 16  # the guard's SPEC_RUNGS_MAX


class Rung(NamedTuple):
    """One step of the ladder: the guard sends the signal, then waits this long for the tree to be gone."""

    signal: int
    wait_s: float


def parse_ladder(ladder: Ladder, *, grace_s: float) -> tuple[Rung, ...]:
    """The rungs of `INT:2s,TERM:8s,KILL` or of (signal, wait) pairs; KILL is added when it is not the last.

    A rung without a wait waits for the grace. SpecError: no rungs, too many, a malformed one, or one after KILL.
    """
    if isinstance(ladder, str):
        pairs = [_text_rung(rung, grace_s) for rung in ladder.split(",")] if ladder.strip() else []
    else:
        pairs = [_pair(rung) for rung in listed(ladder, "ladder", "a list of (signal, seconds) pairs")]
    rungs = [Rung(parse_signal(s, field="ladder"), parse_duration(wait, field="ladder")) for s, wait in pairs]
    remedy = "write rungs such as INT:2s,TERM:8s,KILL"
    if not rungs:
        raise SpecError("ladder has no rungs", field="ladder", remedy=remedy)
    if any(rung.signal == _signal.SIGKILL for rung in rungs[:-1]):
        raise SpecError("ladder goes on after KILL", field="ladder", remedy="nothing is left to signal: end with KILL")
    if rungs[-1].signal != _signal.SIGKILL:
        rungs.append(Rung(int(_signal.SIGKILL), 0.0))
    if len(rungs) > MOST_RUNGS:
        raise SpecError(f"ladder has more than {MOST_RUNGS} rungs, KILL included", field="ladder", remedy=remedy)
    if rungs[-1].wait_s:
        raise SpecError("ladder waits after KILL", field="ladder", remedy="set kill_wait instead")
    return tuple(rungs)


def format_ladder(ladder: Iterable[Rung]) -> str:
    """The text that `parse_ladder` reads back."""
    return ",".join(
        signal_name(rung.signal).removeprefix("SIG")
        + ("" if rung.signal == _signal.SIGKILL else f":{format_duration(rung.wait_s)}")
        for rung in ladder
    )


class GraceLadder(tuple[Rung, ...]):
    """The ladder of a run that was given none: SIGTERM, the grace, SIGKILL.

    The signal that asks for the end, SIGINT or SIGHUP, comes before SIGTERM and shares its grace. A ladder that was
    given has its rungs and no others, also when they are the same as here. So the type tells the two apart.
    """

    __slots__ = ()


def default_ladder(grace_s: float) -> GraceLadder:
    return GraceLadder((Rung(int(_signal.SIGTERM), grace_s), Rung(int(_signal.SIGKILL), 0.0)))


def _text_rung(text: str, grace_s: float) -> tuple[str, Duration]:
    name, colon, wait = text.partition(":")
    is_kill = name.strip().upper().removeprefix("SIG") in ("KILL", str(int(_signal.SIGKILL)))
    return name, wait if colon else (0 if is_kill else grace_s)


def _pair(rung: Any) -> tuple[Any, Any]:
    if isinstance(rung, (tuple, list)) and len(rung) == 2:
        return rung[0], rung[1]
    raise SpecError("a rung is not a pair", field="ladder", remedy="pass (signal, seconds) pairs, or text: INT:2s,KILL")
