"""Kinds of settings: how a value is read from text or from TOML, and how it is shown."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, NamedTuple

from ..values.disk_floor import format_floor, parse_floor
from ..values.durations import format_duration, format_size, parse_duration, parse_size
from ..values.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_NONE = "none"
_YES_NO = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


class SettingKind(NamedTuple):
    """One kind of value. `read` takes text (of a flag or a variable) or a TOML value, and raises SpecError."""

    metavar: str | None
    toml_types: tuple[type, ...]
    wanted: str
    read: Callable[[Any, str], Any]
    write: Callable[[Any], str]
    many: bool = False

    def accepts(self, value: object) -> bool:
        """Whether a TOML value has a type of this kind; True and False are not numbers here."""
        return isinstance(value, self.toml_types) and (bool in self.toml_types or not isinstance(value, bool))


def _duration(value: str | int | float, name: str) -> float:
    return parse_duration(value, field=name)


def _size(value: str | int, name: str) -> int:
    return parse_size(value, field=name)


def _count(value: str | int, name: str) -> int:
    if isinstance(value, str):
        if not (value.isascii() and value.isdigit() and len(value) < 12):
            raise SpecError(f"{name} {value[:40]!r} is not a whole number", field=name, remedy="write digits only")
        value = int(value)
    if not 0 <= value < 10**12:
        raise SpecError(f"{name} {value} is out of range", field=name, remedy="write a number that is not negative")
    return value


def _at_least_one(value: str | int, name: str) -> int:
    count = _count(value, name)
    if count < 1:
        raise SpecError(f"{name} must be at least 1", field=name, remedy="nothing could ever run")
    return count


def _yes_no(value: str | bool, name: str) -> bool:
    if isinstance(value, bool):
        return value
    if value.lower() not in _YES_NO:
        raise SpecError(f"{name} {value[:40]!r} is neither yes nor no", field=name, remedy="write true or false")
    return _YES_NO[value.lower()]


def _text(value: str, name: str) -> str:
    if not value or not value.isprintable():
        raise SpecError(f"{name} is empty or not printable", field=name, remedy="write it, or leave it out")
    return value


def _path(value: str, name: str) -> str:
    return os.path.abspath(os.path.expanduser(_text(value, name)))


def _listed(value: str | list[Any], name: str) -> tuple[str, ...]:
    words = [word.strip() for word in value.split(",")] if isinstance(value, str) else value
    if any(not isinstance(word, str) for word in words):
        raise SpecError(f"{name} is not a list of text", field=name, remedy='write ["...", "..."]')
    return tuple(_text(word, name) for word in words if word)


def _address(text: str, name: str) -> str:
    host, colon, port = text.rpartition(":")
    plain_host = host.removeprefix("[").removesuffix("]")
    bracketed = host.startswith("[") and host.endswith("]")
    if not colon or not plain_host or (":" in plain_host and not bracketed) or not port.isdigit() or int(port) > 65535:
        remedy = "write HOST:PORT, such as 127.0.0.1:7300 or [::1]:7300"
        raise SpecError(f"{name} {text[:80]!r} is not an address", field=name, remedy=remedy)
    return text


def _addresses(value: str | list[Any], name: str) -> tuple[str, ...]:
    return tuple(_address(text, name) for text in _listed(value, name))


def _counts_by_key(value: str | dict[str, Any], name: str) -> dict[str, int]:
    if isinstance(value, str):
        pairs: Mapping[str, Any] = dict(_key_and_count(text, name) for text in value.split(",") if text.strip())
    else:
        pairs = value
        wrong = [key for key, count in pairs.items() if not isinstance(count, int) or isinstance(count, bool)]
        if wrong:
            field = f"{name}.{wrong[0]}"
            raise SpecError(f"{field} is not a whole number", field=field, remedy="write how many at once")
    return {_text(key, name): _at_least_one(count, f"{name}.{key}") for key, count in pairs.items()}


def _key_and_count(text: str, name: str) -> tuple[str, str]:
    key, equals, count = text.strip().rpartition("=")  # the last `=`: a key made of a label has one itself
    if not equals or not key:
        raise SpecError(f"{name} {text[:80]!r} is not KEY=COUNT", field=name, remedy="write session:build=2")
    return key, count


def _plain(value: Any) -> str:
    return str(value)


def _joined(value: tuple[str, ...]) -> str:
    return ", ".join(value) or "-"


def words(*allowed: str) -> SettingKind:
    """The kind whose value is one of these words."""

    def read(value: str, name: str) -> str:
        if value not in allowed:
            remedy = f"use one of {', '.join(allowed)}"
            raise SpecError(f"{name} {value[:40]!r} is unknown", field=name, remedy=remedy)
        return value

    return SettingKind("|".join(allowed), (str,), "text", read, _plain)


def optional(kind: SettingKind) -> SettingKind:
    """The same kind, or the word `none`, which switches the setting off."""

    def read(value: Any, name: str) -> Any:
        return None if value == _NONE else kind.read(value, name)

    return kind._replace(
        toml_types=(*kind.toml_types, str),
        wanted=f'{kind.wanted}, or "none"',
        read=read,
        write=lambda value: _NONE if value is None else kind.write(value),
    )


DURATION = SettingKind("DURATION", (str, int, float), "a duration", _duration, format_duration)
SIZE = SettingKind("SIZE", (str, int), "a size", _size, format_size)
DISK_FLOOR = SettingKind("SIZE|N%", (str, int), "a size, a part of the disk, or both", parse_floor, format_floor)
COUNT = SettingKind("COUNT", (int,), "a whole number", _count, _plain)
AT_LEAST_ONE = COUNT._replace(read=_at_least_one)
SWITCH = SettingKind(None, (bool,), "true or false", _yes_no, lambda value: "true" if value else "false")
TEXT = SettingKind("TEXT", (str,), "text", _text, _plain)
FILE = SettingKind("PATH", (str,), "a path", _path, _plain)
LIST = SettingKind("TEXT", (list,), "a list of text", _listed, _joined, many=True)
ADDRESSES = SettingKind("HOST:PORT", (list,), "a list of addresses", _addresses, _joined, many=True)
COUNTS_BY_KEY = SettingKind(
    "KEY=COUNT",
    (dict,),
    "a table of whole numbers",
    _counts_by_key,
    lambda value: ", ".join(f"{key}={count}" for key, count in value.items()) or "-",
    many=True,
)
