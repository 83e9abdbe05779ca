"""Logs on the screen: colours, and nothing else that a terminal would obey."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.top.log_text import MOST_LINES, log_text, safe_line


def is_harmless(text: str) -> bool:
    return all(character == "\n" or character.isprintable() for character in text)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"plain\n", "plain"),
        (b"a\tb\n", "a       b"),
        (b"10%\r50%\r100%\n", "100%"),
        (b"crlf\r\nnext\r\n", "crlf\nnext"),
        (b"\x1b]0;title\x07after", "after"),
        (b"\x1b]0;title\x1b\\after", "after"),
        (b"\x1b]0;no end\nnext line", "\nnext line"),
        (b"\x1b]8;;http://evil\x1b\\link\x1b]8;;\x1b\\", "link"),
        (b"\x1b]52;c;ZXZpbA==\x07clipboard", "clipboard"),
        (b"\x1bP1;2qsixel\x1b\\after", "after"),
        (b"\x1b[2J\x1b[5;5Hmoved\x1b[?1049h\x1b[6n", "moved"),
        (b"\x1bc\x1b(0\x1b#8reset", "reset"),
        (b"\x1b[", ""),
        (b"\x1b", ""),
        ("\x9b31mc1 \x9d0;t\x9cdone".encode(), "c1 done"),
        (b"\x00\x01\x7f", "\\x00\\x01\\x7f"),
        ("\u202eevil".encode(), "\\u202eevil"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[bold]markup[/bold] [@click=app.quit]x[/]", "[bold]markup[/bold] [@click=app.quit]x[/]"),
    ],
)
def test_what_is_shown(written: bytes, shown: str) -> None:
    text = log_text(written)
    assert text.plain == shown
    assert is_harmless(text.plain)


def test_colours_stay() -> None:
    text = log_text(b"\x1b[31mred\x1b[0m \x1b[1;38;5;8mgrey\x1b[0m")
    assert text.plain == "red grey"
    assert [str(span.style) for span in text.spans if text.plain[span.start : span.end].strip()] == [
        "color(1)",
        "bold color(8)",
    ]


def test_nothing_is_hidden_or_linked() -> None:
    text = log_text(b"\x1b[8mconcealed\x1b[0m \x1b[5;1mblinks\x1b[m \x1b]8;;http://x\x07y")
    styles = " ".join(str(span.style) for span in text.spans)
    assert text.plain == "concealed blinks y"
    assert not any(word in styles for word in ("conceal", "blink", "link"))


def test_only_the_end_and_no_half_line() -> None:
    many = b"".join(b"line %d\n" % number for number in range(3 * MOST_LINES))
    lines = log_text(many).plain.splitlines()
    assert (len(lines), lines[-1]) == (MOST_LINES, f"line {3 * MOST_LINES - 1}")
    assert log_text("äcut off\nwhole\n".encode()[1:], cut=True).plain == "whole"
    assert log_text("älong".encode()[1:], cut=True).plain == "long"


@given(st.binary(max_size=200))
def test_whatever_is_written_nothing_gets_through(data: bytes) -> None:
    assert is_harmless(log_text(data).plain)


@given(st.lists(st.sampled_from(["\x1b", "[", "]", "8;;", "m", "3", ";", "\x9b", "\x07", "\\", "x", "\x90", " "])))
def test_pieces_of_sequences_do_not_become_one(parts: list[str]) -> None:
    # The negative control: without the escaping this line is the sequence itself.
    assert is_harmless(log_text("".join(parts).encode()).plain)
    left = safe_line("".join(parts)).replace("\x1b[", "")
    assert is_harmless(left)
