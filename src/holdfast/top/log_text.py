"""What a run wrote, as text that is safe to show: its colours stay, everything else a terminal would obey does not.

First every control sequence but colours is taken out, then every character that is left and not printable is escaped;
only then is the rest given to rich, which so meets nothing but colours and printable text. Links, titles, cursor
movements, strings without an end, the eight-bit forms of all these: nothing of them arrives.
"""

from __future__ import annotations

import re
from itertools import takewhile

from rich.ansi import AnsiDecoder
from rich.text import Text

from ..values.utf8_cut import start_of_first
from ..wording.plain import plain

MOST_LINES = 1000
_LONGEST_LINE = 4000
# Strings first (OSC, DCS, SOS, PM, APC): what is inside is none of our business. One without an end goes to the line's.
_SEQUENCE = re.compile(
    r"(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f]).*?(?:\x07|\x1b\\|\x9c|$)"
    r"|(?:\x1b\[|\x9b)(?P<parameters>[0-?]*)(?P<between>[ -/]*)(?P<final>[@-~]?)"
    r"|\x1b[ -/]*[0-~]?"
)
_COLOURS = re.compile(r"[0-9;:]{0,64}")
_HIDING = {"5", "6", "8"}  # blinking and concealed text: what is there is to be read


def log_text(data: bytes, *, cut: bool = False) -> Text:
    """The last lines of it. `cut`: it does not begin at the beginning, so the first line is left out."""
    if cut:
        data = data[start_of_first(data) :]
        data = data.partition(b"\n")[2] or data
    lines = data.decode("utf-8", "replace").split("\n")
    if lines and not lines[-1]:
        lines.pop()
    decoder = AnsiDecoder()
    return Text("\n").join(decoder.decode_line(safe_line(line)) for line in lines[-MOST_LINES:])


def safe_line(line: str) -> str:
    """One line with colours as the only control sequences; of what was overwritten (a carriage return), the last."""
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
    parameters = found["parameters"]
    if found["final"] != "m" or found["between"] or parameters is None or not _COLOURS.fullmatch(parameters):
        return ""
    words = parameters.replace(":", ";").split(";")
    # After 38 and 48 come the numbers of one colour, of which none means to hide.
    plain_words = list(takewhile(lambda word: word not in ("38", "48"), words))
    kept = [word for word in plain_words if word.lstrip("0") not in _HIDING] + words[len(plain_words) :]
    return f"\x1b[{';'.join(kept)}m" if kept else ""
