"""Output for a terminal: colours pass, no other escape sequence does, wherever the chunks are cut."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.wording.terminal_output import TerminalFilter

# All that a terminal may get: text without controls, four harmless controls, and complete colour sequences.
SAFE = re.compile(r"(?:[^\x00-\x1f\x7f-\x9f]|[\b\t\n\r]|\x1b\[[0-9;:]*m)*")
REPLACED = "\ufffd".encode()


def shown(*chunks: bytes) -> bytes:
    terminal = TerminalFilter()
    return b"".join(terminal.feed(chunk) for chunk in chunks) + terminal.end()


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"plain \xc3\xa9 text\n", b"plain \xc3\xa9 text\n"),
        (b"10%\r20%\r\n", b"10%\r20%\r\n"),
        (b"a\bb\tc", b"a\bb\tc"),
        (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
        (b"\x1b[mreset", b"\x1b[mreset"),
        (b"\x1b[38;5;8mgrey\x1b[0m", b"\x1b[38;5;8mgrey\x1b[0m"),
        (b"\x1b[38;2;8;5;6;8mx\x1b[0m", b"\x1b[38;2;8;5;6mx\x1b[0m"),
        (b"\x1b[4:3mwave\x1b[m", b"\x1b[4:3mwave\x1b[m"),
        (b"\xc2\x9b31meight bits\x1b[0m", b"\x1b[31meight bits\x1b[0m"),
        (b"\x1b[8mhidden\x1b[08;1mx\x1b[0m", b"hidden\x1b[1mx\x1b[0m"),
        (b"\x1b[2J\x1b[H\x1b[1Aover", b"over"),
        (b"\x1b[>4;2mkeys", b"keys"),
        (b"\x1b[?25lcursor", b"cursor"),
        (b"\x1b[1 qshape", b"shape"),
        (b"\x1b[6n\x1b[c\x05answers", b"answers"),
        (b"\x1b]0;title\x07after", b"after"),
        (b"\x1b]52;c;aGk=\x1b\\after", b"after"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", b"link"),
        (b"\x1bPq#0;2;0;0\x1b\\image", b"image"),
        (b"\xc2\x9d0;title\xc2\x9cafter", b"after"),
        (b"\x1b]0;title\nnext line", b"\nnext line"),
        (b"\x1b_app\x18cancelled", b"cancelled"),
        (b"\x1bc\x1b7\x1b(0\x1b#8x", b"x"),
        (b"\x1b[31\x1b[32mgreen\x1b[0m", b"\x1b[32mgreen\x1b[0m"),
        (b"\x1b[3\n1m", b"\n1m"),
        (b"\x0e\x0f\x00\x07\x7fx", b"x"),
        (b"\xc2\x85\xc2\x84x", b"x"),
        (b"\xff\x9b31m\xc3", REPLACED * 2 + b"31m" + REPLACED),
        (b"\x1b[31munfinished", b"\x1b[31munfinished\x1b[0m"),
        (b"end\x1b", b"end"),
        (b"end\x1b[3", b"end"),
        (b"\x1b[" + b"1;" * 100 + b"1mlong", b"long"),
    ],
)
def test_what_passes(output: bytes, expected: bytes) -> None:
    assert shown(output) == expected
    assert shown(*(output[at : at + 1] for at in range(len(output)))) == expected


TEXT = [b"m", b"31", b";", b"8", b"38;5;", b"?", b" ", b"a", b"\\", b"\xe2\x82\xac", b"\xf0\x9f", b"\xff"]
CONTROLS = [
    b"\x1b",
    b"\x1b[",
    b"[",
    b"]",
    b"P",
    b"\x9b",
    b"\xc2",
    b"\x9c",
    b"\xc2\x9d",
    b"\x07",
    b"\n",
    b"\r",
    b"\x18",
    b"\x05",
]
PIECES = st.sampled_from([*TEXT, *CONTROLS])


@given(st.lists(PIECES | st.binary(max_size=4), max_size=40))
def test_nothing_else_passes_wherever_it_is_cut(pieces: list[bytes]) -> None:
    whole = shown(b"".join(pieces))
    assert shown(*pieces) == whole
    assert SAFE.fullmatch(whole.decode())


def test_control_the_check_sees_what_an_unfiltered_stream_does() -> None:
    for output in ("\x1b]0;title\x07", "\x1b[2J", "\x1b[31", "\x9b31m", "\x05"):
        assert not SAFE.fullmatch(output)


def test_no_output_is_hidden_by_a_string_without_end() -> None:
    assert shown(b"\x1b]0;", b"never ended ", b"at all\n", b"rm -rf /\n") == b"\nrm -rf /\n"
