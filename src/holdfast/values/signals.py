"""Signals by name and number: `TERM`, `SIGTERM`, `15`, `RTMIN+3`."""

from __future__ import annotations

from .errors import SpecError
from .fast_imports import signal as _signal

_NUMBERS = {name: int(number) for name, number in vars(_signal).items() if name[:3] == "SIG" and name[3] != "_"}
# Platforms keep old second names (SIGCLD, SIGPOLL): we understand them and never show them.
_NAMES = {number: name for name, number in sorted(_NUMBERS.items(), reverse=True)}
# Without the signals that the C library keeps for itself.
_VALID = frozenset(int(number) for number in _signal.valid_signals())
STOPS = (_signal.SIGINT, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGQUIT)  # each asks a program to end
_FORMS = "use a name such as TERM or SIGTERM, or its number"


def parse_signal(text: str | int, *, field: str = "signal") -> int:
    """Parse a signal into its number. SpecError: this system has no such signal, or it is 0, the null signal."""
    if isinstance(text, int) and not isinstance(text, bool):
        number: int | None = int(text)
    elif isinstance(text, str):
        number = _number_of(text.strip())
    else:
        raise SpecError(f"{field} must be a name or a number, not {type(text).__name__}", field=field, remedy=_FORMS)
    if number is None or number not in _VALID:
        raise SpecError(f"{field} {str(text)[:40]!r} is no signal on this system", field=field, remedy=_FORMS)
    return number


def signal_name(number: int) -> str:
    """The name of a signal: `SIGTERM` for 15, `SIGRTMIN+n` for real-time signals, `signal n` for unknown numbers."""
    if number in _NAMES:
        return _NAMES[number]
    if _signal.SIGRTMIN < number < _signal.SIGRTMAX:
        return f"SIGRTMIN+{number - _signal.SIGRTMIN}"
    return f"signal {number}"


def _number_of(text: str) -> int | None:
    if text.isascii() and text.isdigit():
        return int(text[:4])
    name, sign, shift = text.upper().partition("-" if "-" in text else "+")
    name = name if name.startswith("SIG") else f"SIG{name}"
    if not sign:
        return _NUMBERS.get(name)
    if name not in ("SIGRTMIN", "SIGRTMAX") or not (shift.isascii() and shift.isdigit()):
        return None
    number = _NUMBERS[name] + int(sign + shift[:4])
    return number if _signal.SIGRTMIN <= number <= _signal.SIGRTMAX else None
