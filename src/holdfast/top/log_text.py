"""The output of a run as text that is safe to show: colours stay, every other control sequence is removed.

The first step removes every control sequence except colours; the second escapes every other unprintable character. Only
then rich gets the text, so it meets nothing but colours and printable characters. Links, titles, cursor movements,
strings without an end, and the eight-bit forms of all these never reach the terminal.
"""

from __future__ import annotations

import re

from rich.ansi import AnsiDecoder
from rich.text import Text

from ..values.utf8_cut import start_of_first
from ..wording.plain import plain
from ..wording.terminal_output import colour_sequence

MOST_LINES = 1000
_LONGEST_LINE = 4000
# Strings first (OSC, DCS, SOS, PM, APC), with all they contain. A string without an end lasts to the end of the line.
_SEQUENCE = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~]?)"
    r"|\x1b[ -/]*[0-~]?"
)


def log_text(data: bytes, *, cut: bool = False) -> Text:
    """The last lines of the output. `cut`: the data begins inside a line, so the first line is left out."""
    if cut:
        data = data[start_of_first(data) :]
        data = data.partition(b"\n")[2] or data
    lines = data.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    decoder = AnsiDecoder()
    return Text("\n").join(decoder.decode_line(safe_line(line)) for line in lines[-MOST_LINES:])


def safe_line(line: str) -> str:
    """One line with colours as its only control sequences. Only the text after the last carriage return is kept."""
    line = line.rstrip("\r").rpartition("\r")[2][:_LONGEST_LINE].expandtabs()
    safe, at = [], 0
    for found in _SEQUENCE.finditer(line):
        safe.append(_printable(line[at : found.start()]))
        safe.append(_colour(found))
        at = found.end()
    safe.append(_printable(line[at:]))
    return "".join(safe)


def _printable(text: str) -> str:
    return plain(text.replace("\b", "").replace("\x07", ""))


def _colour(found: re.Match[str]) -> str:
    is_colour = found["final"] == "m" and not found["between"] and found["parameters"] is not None
    return colour_sequence(found["parameters"]) if is_colour else ""
