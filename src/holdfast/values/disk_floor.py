"""The floor of a disk: how much of it must stay free, as people write it: `1G`, `5%`, `5%,1G` (the smaller), `none`."""

from __future__ import annotations

from .durations import format_size, parse_size
from .errors import SpecError
from .fast_imports import Mapping, NamedTuple

VARIABLE = "HOLDFAST_DISK_FLOOR"


class DiskFloor(NamedTuple):
    """How much of a disk must stay free: a part of its size, a number of bytes, or the smaller of both."""

    percent: float | None
    size_bytes: int | None

    def of(self, total_bytes: int) -> int:
        """The floor for a disk of this size."""
        part = None if self.percent is None else int(total_bytes * self.percent / 100)
        return min(floor for floor in (part, self.size_bytes, total_bytes) if floor is not None)


DEFAULT_FLOOR = DiskFloor(5.0, 1 << 30)


def parse_floor(value: str | int, name: str) -> DiskFloor:
    """Read a floor; `name` is the option or setting in the error. SpecError: it is neither a size nor a part."""
    percent: float | None = None
    size_bytes: int | None = None
    for word in str(value).split(","):
        text = word.strip()
        if not text.endswith("%"):
            size_bytes = parse_size(text, field=name)
            continue
        digits = text[:-1].strip()
        if not digits.replace(".", "", 1).isdecimal() or not 0 <= float(digits) < 100:
            raise SpecError(f"{name} {text[:40]!r} is no part of a disk", field=name, remedy="write 5%, 1G, or 5%,1G")
        percent = float(digits)
    return DiskFloor(percent, size_bytes)


def format_floor(floor: DiskFloor) -> str:
    """The floor as `parse_floor` reads it."""
    part = [] if floor.percent is None else [f"{floor.percent:g}%"]
    return ",".join([*part, *([] if floor.size_bytes is None else [format_size(floor.size_bytes)])])


def floor_of(text: str | None) -> DiskFloor | None:
    """The floor as text, or the default when there is no text; None: there is no floor. SpecError as `parse_floor`."""
    if not text:
        return DEFAULT_FLOOR
    return None if text == "none" else parse_floor(text, "disk_floor")


def floor_of_variable(environ: Mapping[str, str]) -> DiskFloor | None:
    """The floor in HOLDFAST_DISK_FLOOR, as `floor_of`."""
    try:
        return floor_of(environ.get(VARIABLE))
    except SpecError as error:
        raise SpecError(f"{VARIABLE} is wrong: {error.message}", remedy=error.remedy) from None
