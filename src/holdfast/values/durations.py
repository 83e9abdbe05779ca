"""Durations and sizes as people write them: `250ms`, `1.5s`, `10m`, `1h30m`; `64K`, `2G` (powers of 1024).

Parsing uses whole-number arithmetic and keeps nanoseconds, the unit of the guard. So a duration above zero stays above
zero in the guard, and `parse_*` reads back exactly what `format_*` writes.
"""

from __future__ import annotations

from .errors import SpecError
from .fast_imports import NamedTuple

LONGEST_DURATION_S = 10 * 365 * 86_400
LARGEST_SIZE = 1 << 60

_SECOND_NS = 1_000_000_000
_DURATION_UNITS = {
    "ns": 1,
    "us": 1_000,
    "ms": 1_000_000,
    "s": _SECOND_NS,
    "m": 60 * _SECOND_NS,
    "h": 3_600 * _SECOND_NS,
    "d": 86_400 * _SECOND_NS,
}
_LARGER_THAN_ALL = 1 << 62
_SIZE_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50}
_DURATION_FORMS = "write seconds as a number, or text such as 250ms, 1.5s, 10m, 1h30m, 1d"
_SIZE_FORMS = "write bytes as a whole number, or text such as 64K, 10M, 2G"
_LONGEST_NUMBER = 40  # characters; int() refuses thousands of digits with an error of its own


class Measure(NamedTuple):
    """A kind of amount, with the words for error messages about it."""

    noun: str
    whole: str  # what is allowed, in words
    forms: str  # the remedy: how to write it
    most: int | None  # the largest amount; None: no limit


BYTES = Measure("a size", "a whole number of bytes", _SIZE_FORMS, LARGEST_SIZE)
COUNT = Measure("a number", "a whole number", "write a whole number, such as 500", None)


def parse_duration(text: str | int | float, *, field: str = "duration") -> float:
    """Parse a duration into seconds. SpecError: it is negative, not a number, or longer than ten years."""
    if isinstance(text, str):
        nanoseconds = _duration_text(text, field)
    elif isinstance(text, (int, float)) and not isinstance(text, bool):
        if text != text:
            raise SpecError(f"{field} is not a number", field=field, remedy=_DURATION_FORMS)
        # Clamped first: round() of an infinity raises, and the bounds below say it better.
        nanoseconds = round(max(-1.0, min(_float_or_infinity(text), LONGEST_DURATION_S + 1.0)) * _SECOND_NS)
        if text < 0:
            nanoseconds = -1
    else:
        kind = type(text).__name__
        raise SpecError(f"{field} must be a number or text, not {kind}", field=field, remedy=_DURATION_FORMS)
    if nanoseconds < 0:
        raise SpecError(f"{field} must not be negative", field=field, remedy=_DURATION_FORMS)
    if nanoseconds > LONGEST_DURATION_S * _SECOND_NS:
        raise SpecError(f"{field} is longer than ten years", field=field, remedy="give a shorter time, or none at all")
    return nanoseconds / _SECOND_NS


def parse_size(text: str | int, *, field: str = "size", of: Measure = BYTES) -> int:
    """Parse a number of bytes, or a count. SpecError: it is negative, not whole, or above the largest amount."""
    if isinstance(text, str):
        size = _size_text(text, field, of)
    elif isinstance(text, int) and not isinstance(text, bool):
        size = text
    else:
        kind = type(text).__name__
        raise SpecError(f"{field} must be a whole number or text, not {kind}", field=field, remedy=of.forms)
    if size < 0:
        raise SpecError(f"{field} must not be negative", field=field, remedy=of.forms)
    if of.most is not None and size > of.most:
        raise SpecError(
            f"{field} is larger than an exbibyte", field=field, remedy="give a smaller size, or none at all"
        )
    return size


def format_duration(seconds: float) -> str:
    """Write a duration as the shortest exact text, such as `250ms`, `1.5s` or `2h`."""
    nanoseconds = round(seconds * _SECOND_NS)
    if nanoseconds < 0:
        return f"-{format_duration(-seconds)}"
    for unit in ("d", "h", "m"):
        if nanoseconds and nanoseconds % _DURATION_UNITS[unit] == 0:
            return f"{nanoseconds // _DURATION_UNITS[unit]}{unit}"
    if nanoseconds == 0 or nanoseconds >= _SECOND_NS:
        return f"{_decimal(nanoseconds, 9)}s"
    return f"{_decimal(nanoseconds, 6)}ms"


def format_size(size: int) -> str:
    """Write a size as the shortest exact text, such as `64K`, `2G` or `1000B`."""
    for unit in ("p", "t", "g", "m", "k"):
        if size and size % _SIZE_UNITS[unit] == 0:
            return f"{size // _SIZE_UNITS[unit]}{unit.upper()}"
    return f"{size}B"


def _float_or_infinity(number: int | float) -> float:
    """The number as a float; an int too large for one becomes an infinity of its sign."""
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _duration_text(text: str, field: str) -> int:
    total, larger = 0, _LARGER_THAN_ALL
    parts = _parts(text)
    for part in parts:
        number, unit = _split(part)
        factor = _DURATION_UNITS.get(unit or ("s" if len(parts) == 1 else ""), _LARGER_THAN_ALL)
        scaled = _scale(number, factor) if factor < larger else None
        if scaled is None:
            raise SpecError(f"{field} {_shown(text)} is not a duration", field=field, remedy=_DURATION_FORMS)
        total, larger = total + scaled[0], factor
    return total


def _parts(text: str) -> list[str]:
    """`1h30m` in parts, `1h` and `30m`: a part begins with a digit after a letter, or after a letter and a space."""
    digits = (at for at in range(1, len(text)) if text[at] in "0123456789")
    begins = [at for at in digits if text[max(0, at - 2) : at].rstrip()[-1:].isalpha()]
    return [text[begin:end] for begin, end in zip([0, *begins], [*begins, len(text)], strict=True)]


def _size_text(text: str, field: str, of: Measure) -> int:
    number, unit = _split(text)
    prefix = unit.lower().removesuffix("b").removesuffix("i")
    known = prefix in _SIZE_UNITS and unit.lower() in (prefix, f"{prefix}b", f"{prefix}ib") and unit.lower() != "ib"
    scaled = _scale(number, _SIZE_UNITS[prefix]) if known else None
    if scaled is None:
        raise SpecError(f"{field} {_shown(text)} is not {of.noun}", field=field, remedy=of.forms)
    whole, exact = scaled
    if not exact:
        raise SpecError(f"{field} {_shown(text)} is not {of.whole}", field=field, remedy=of.forms)
    return whole


def _split(text: str) -> tuple[str, str]:
    text = text.strip()
    end = len(text)
    while end and not ("0" <= text[end - 1] <= "9" or text[end - 1] == "."):
        end -= 1
    return text[:end], text[end:].strip()


def _scale(number: str, factor: int) -> tuple[int, bool] | None:
    """`number` times `factor`, rounded, and whether that is exact; None when the text is not a number."""
    sign, digits = (-1, number[1:]) if number.startswith("-") else (1, number)
    whole, point, fraction = digits.partition(".")
    plain = whole + fraction
    if len(number) > _LONGEST_NUMBER or (not fraction and (point or not whole)):
        return None
    if not (plain.isascii() and plain.isdigit()):
        return None
    scale = 10 ** len(fraction)
    product = int(plain) * factor
    if sign < 0 and product:
        return -max(1, product // scale), product % scale == 0
    return (2 * product + scale) // (2 * scale), product % scale == 0


def _decimal(value: int, places: int) -> str:
    whole, fraction = divmod(value, 10**places)
    digits = f"{fraction:0{places}d}".rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_NUMBER else f"{text[:_LONGEST_NUMBER]}...")
