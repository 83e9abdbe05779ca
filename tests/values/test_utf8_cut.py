"""Cutting UTF-8: never within a character, and never more than one character away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from holdfast.values.utf8_cut import end_of_last, start_of_first


@given(st.text(min_size=1), st.integers(0, 1000))
def test_text_stays_text(text: str, at: int) -> None:
    data = text.encode()
    at %= len(data) + 1
    head, tail = data[:at], data[at:]
    assert text.startswith(head[: end_of_last(head)].decode())
    assert text.endswith(tail[start_of_first(tail) :].decode())
    assert len(head) - end_of_last(head) < 4
    assert start_of_first(tail) < 4


@given(st.binary())
def test_anything_can_be_cut(data: bytes) -> None:
    assert 0 <= end_of_last(data) <= len(data)
    assert 0 <= start_of_first(data) <= len(data)
    assert len(data) - end_of_last(data) < 4


def test_what_is_no_text_is_not_held_back_for_ever() -> None:
    assert end_of_last(b"\x80\x80\x80\x80") == 4
    assert start_of_first(b"\x80\x80\x80\x80") == 0
    assert end_of_last(b"a\xff\x80\x80\x80\x80") == 6
