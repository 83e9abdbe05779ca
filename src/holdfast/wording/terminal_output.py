"""The output of a run for a terminal: colours stay, every other escape sequence is removed, also across chunks.

A terminal obeys what it is shown: a sequence can set its title, move the cursor over earlier lines, fill the clipboard,
or make the terminal answer as if the user had typed. What leaves the filter is text, tab, newline, carriage return,
backspace, and complete colour sequences; nothing else has an escape character in it. So the promise does not depend on
reading a sequence as some terminal would. Bytes that are not UTF-8 become U+FFFD: a terminal may take them for
eight-bit controls.
"""

from __future__ import annotations

import codecs
import re

_LONGEST = 64  # characters of a colour sequence
_HIDING = frozenset(("5", "6", "8"))  # blinking and concealed text: all text must be readable
_COLOUR_OF = {"38": {"5": 2, "2": 4}, "48": {"5": 2, "2": 4}, "58": {"5": 2, "2": 4}}  # how many words describe it
_PARAMETERS = re.compile(r"[0-9;:]*")
_CONTROLS = {number: None for number in (*range(0x20), 0x7F) if chr(number) not in "\b\t\n\r"}
_RESET = "\x1b[0m"
# What begins a sequence: the escape character, or an eight-bit control (U+009B is the same as ESC [).
_BEGIN = re.compile(r"[\x1b\x80-\x9f]")
_STRING_END = re.compile(r"[\x07\x18\x1a\x1b\x9c\n]")


def colour_sequence(parameters: str) -> str:
    """The colour sequence with these parameters; empty if it is none, or if it would only hide text."""
    if len(parameters) > _LONGEST or not _PARAMETERS.fullmatch(parameters):
        return ""
    words = parameters.split(";")
    kept: list[str] = []
    while words:
        # The numbers after 38, 48 and 58 describe a colour, so none of them hides text.
        count = 1 + _COLOUR_OF.get(words[0], {}).get(words[1] if len(words) > 1 else "", 0)
        if words[0].partition(":")[0].lstrip("0") not in _HIDING:
            kept += words[:count]
        del words[:count]
    return f"\x1b[{';'.join(kept)}m" if kept else ""


class TerminalFilter:
    """Filters one stream, chunk by chunk. A sequence may be cut anywhere between two chunks.

    A string (title, link, clipboard, image) without an end lasts to the end of its line: no output stays hidden.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._sequence = ""  # the unfinished sequence: ESC and what follows; of a string only its beginning
        self._coloured = False

    def feed(self, data: bytes, *, final: bool = False) -> bytes:
        """The part of the output that may be shown now."""
        text = self._decoder.decode(data, final)
        shown: list[str] = []
        at = 0
        while at < len(text):
            if not self._sequence:
                begin = _BEGIN.search(text, at)
                end = begin.start() if begin else len(text)
                shown.append(text[at:end].translate(_CONTROLS))
                at = end
                if begin:
                    at += 1
                    self._begin(text[end])
            elif self._sequence[1:2] in tuple("]PX^_"):
                at = self._skip_string(text, at)
            else:
                at = self._follow(text, at, shown)
        return "".join(shown).encode()

    def end(self) -> bytes:
        """What is left at the end of the output: the sign of a cut character, and a reset of colours still on."""
        left = self.feed(b"", final=True)
        return left + (_RESET.encode() if self._coloured else b"")

    def _begin(self, character: str) -> None:
        # An eight-bit control is ESC and the character 0x40 below it.
        self._sequence = "\x1b" if character == "\x1b" else f"\x1b{chr(ord(character) - 0x40)}"
        if self._sequence[1:] and self._sequence[1] not in "[]PX^_":
            self._sequence = ""  # complete: a control without parameters

    def _skip_string(self, text: str, at: int) -> int:
        found = _STRING_END.search(text, at)
        if found is None:
            return len(text)
        # ESC ends a string, too: `ESC \` is its end, and any other sequence counts as one of its own.
        self._sequence = "\x1b" if found[0] == "\x1b" else ""
        return found.start() if found[0] == "\n" else found.end()

    def _follow(self, text: str, at: int, shown: list[str]) -> int:
        """Read one more character of the sequence; returns where to go on."""
        character = text[at]
        if character < " " or character > "~":
            self._sequence = ""  # broken off: the character stands for itself
            return at + (character in "\x18\x1a")
        is_csi = self._sequence[1:2] == "["
        if is_csi and character == "m":
            colour = colour_sequence(self._sequence[2:])
            shown.append(colour)
            self._coloured = (self._coloured or bool(colour)) and colour not in ("\x1b[m", _RESET)
        final = "@" if is_csi else "0"
        if character >= final and not (self._sequence == "\x1b" and character in "[]PX^_"):
            self._sequence = ""
        elif len(self._sequence) <= _LONGEST + 2:  # longer ones are no colours; it is enough to see their end
            self._sequence += character
        return at + 1
