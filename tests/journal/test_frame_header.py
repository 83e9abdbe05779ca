"""native/frame.h and the Python tables say the same, name by name."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from holdfast.guard import packets, spec_frames
from holdfast.journal import codec, facts

HEADER = Path(__file__).parents[2] / "native" / "frame.h"
TEXT = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.DOTALL)
C_TYPES = {"int32_t": "i", "uint32_t": "I", "int64_t": "q", "uint64_t": "Q", "uint16_t": "H", "uint8_t": "B"}
IDLE_FLAGS = {f"IDLE_{word.upper()}": flag for word, flag in spec_frames.IDLE.items()}


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for processes and descriptors: this module tests pure functions, with many cases."""


def c_enum(name: str) -> dict[str, int]:
    found = re.search(rf"enum {name} \{{(.*?)\}}", TEXT, re.DOTALL)
    assert found, f"enum {name} is gone from frame.h"
    members: dict[str, int] = {}
    value = -1
    for member in filter(None, (piece.strip() for piece in found[1].split(","))):
        label, _, number = (piece.strip() for piece in member.partition("="))
        base, _, shift = number.partition("<<")
        value = int(base) << int(shift or 0) if number else value + 1
        members[label] = value
    return members


def c_struct(name: str) -> list[tuple[str, str]]:
    found = re.search(rf"struct {name} \{{(.*?)\}}", TEXT, re.DOTALL)
    assert found, f"struct {name} is gone from frame.h"
    return [(field, C_TYPES[c_type]) for c_type, field in re.findall(r"(\w+) (\w+);", found[1])]


def letters(fields: list[tuple[str, str]]) -> str:
    """The letters of a struct's fields, measured with C's alignment and without."""
    return "".join(letter for _, letter in fields)


def define(name: str) -> str:
    found = re.search(rf"#define {name} (\S+)", TEXT)
    assert found, f"{name} is gone from frame.h"
    return found[1]


def unprefixed(enum: dict[str, int], prefix: str) -> dict[str, int]:
    assert all(name.startswith(prefix) for name in enum)
    return {name.removeprefix(prefix): number for name, number in enum.items()}


def test_constants() -> None:
    assert define("FRAME_PREAMBLE") == f'"{facts.PREAMBLE.decode()}"'
    assert int(define("FRAME_VERSION").rstrip("u")) == facts.VERSION
    assert int(define("FRAME_MARK").rstrip("u"), 16) == facts.MARK
    assert int(define("FRAME_LATE").rstrip("u")) == facts.LATE


def test_the_frame_itself() -> None:
    fields = c_struct("frame")
    assert [name for name, _ in fields] == ["mark", "type", "stream", "flags", "length", "check", "at_ns"]
    assert "<" + letters(fields) == codec.FRAME.format
    assert struct.calcsize(f"@{letters(fields)}") == codec.FRAME_SIZE == 24


def test_every_fact_has_its_name_and_number() -> None:
    names = {name.lower(): number for name, number in unprefixed(c_enum("fact"), "FACT_").items()}
    assert names == facts.TYPES


@pytest.mark.parametrize("words", facts.WORDS, ids=lambda words: words.enum)
def test_every_word_has_its_number(words: facts.Words) -> None:
    names = unprefixed(c_enum(words.enum), words.prefix)
    assert {number: name.lower() for name, number in names.items()} == words.words


@pytest.mark.parametrize("layout", facts.FACTS.values(), ids=lambda layout: layout.name)
def test_every_payload_has_its_layout(layout: facts.Layout) -> None:
    if layout.struct_name is None:
        assert layout.struct.size == 0
        return
    fields = c_struct(layout.struct_name)
    assert tuple(name for name, _ in fields if name != "reserved") == layout.fields
    with_padding = "".join(letter if name != "reserved" else "4x" for name, letter in fields)
    assert "<" + with_padding == layout.struct.format
    # C may leave gaps where ours has none: equal sizes in both alignments show that it does not.
    assert struct.calcsize(f"@{letters(fields)}") == struct.calcsize(f"<{letters(fields)}") == layout.struct.size


def test_no_struct_of_a_fact_is_missing_in_the_table() -> None:
    in_header = set(re.findall(r"struct (fact_\w+) \{", TEXT))
    assert in_header == {layout.struct_name for layout in facts.FACTS.values()} - {None}


def test_every_repeated_kind_is_a_fact() -> None:
    assert {number: facts.FACTS[number].name for number in facts.REPEATED_KINDS.words} == facts.REPEATED_KINDS.words


def test_the_comment_at_each_fact_names_its_struct_and_text() -> None:
    for name, comment in re.findall(r"FACT_(\w+) = \d+,\s*/\* (.*?) \*/", HEADER.read_text()):
        layout = facts.FACTS[facts.TYPES[name.lower()]]
        said = re.search(r"struct (\w+)", comment)
        assert (said[1] if said else None) == layout.struct_name
        assert (", then " in comment) == (layout.tail is not None)


def test_spec_parts_and_flags() -> None:
    assert {name: getattr(spec_frames, name) for name in unprefixed(c_enum("spec_part"), "PART_")} == unprefixed(
        c_enum("spec_part"), "PART_"
    )
    flags = unprefixed(c_enum("spec_flag"), "SPEC_")
    assert {name: IDLE_FLAGS[name] if name in IDLE_FLAGS else getattr(spec_frames, name) for name in flags} == flags


def test_packets() -> None:
    kinds = unprefixed(c_enum("packet"), "PACKET_")
    assert {name: getattr(packets, name) for name in kinds} == kinds
    scopes = c_enum("signal_scope")
    assert {name: getattr(packets, name) for name in scopes} == scopes


@pytest.mark.parametrize(
    ("name", "packet"),
    [
        ("packet_stop", packets.stop(1, "user", "", now=False)),
        ("packet_signal", packets.signal(1, 15, tree=True)),
        ("packet_extend", packets.extend(1, 5)),
        ("packet_read", packets.read(5, 0)),
    ],
)
def test_requests_are_as_long_as_their_structs(name: str, packet: bytes) -> None:
    fields = letters(c_struct(name))
    assert struct.calcsize(f"@{fields}") == struct.calcsize(f"<{fields}") == len(packet) - codec.FRAME_SIZE


def test_options_and_rungs_have_their_layout() -> None:
    # Private because no other module packs them; this comparison is the exception.
    for name, ours in (("spec_options", spec_frames._OPTIONS), ("spec_rung", spec_frames._RUNG)):  # noqa: SLF001
        fields = letters(c_struct(name))
        written_out = re.sub(r"(\d+)(\w)", lambda found: int(found[1]) * found[2], ours.format)
        assert written_out == "<" + fields
        assert struct.calcsize(f"@{fields}") == ours.size
