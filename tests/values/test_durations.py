"""Durations and sizes: accepted forms, refusals, and exact round trips."""

from __future__ import annotations

import math
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.values.durations import (
    COUNT,
    LARGEST_SIZE,
    LONGEST_DURATION_S,
    format_duration,
    format_size,
    parse_duration,
    parse_size,
)
from holdfast.values.errors import SpecError

HUGE = 10**400


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("250ms", 0.25),
        (".25", 0.25),  # as sleep and timeout read it
        ("1.5s", 1.5),
        ("10m", 600.0),
        ("2h", 7200.0),
        ("1d", 86_400.0),
        ("5", 5.0),
        ("0", 0.0),
        ("-0", 0.0),
        ("0.5", 0.5),
        ("1.5m", 90.0),
        ("1h30m", 5400.0),
        ("1h 30m", 5400.0),
        ("1d2h3m4.5s", 93_784.5),
        ("1s500ms", 1.5),
        (" 3 s ", 3.0),
        ("100us", 0.0001),
        ("1ns", 1e-9),
        ("3650d", float(LONGEST_DURATION_S)),
        (5, 5.0),
        (0, 0.0),
        (0.25, 0.25),
        (LONGEST_DURATION_S, float(LONGEST_DURATION_S)),
        (1e-10, 0.0),
    ],
)
def test_reads_durations(text: str | float, seconds: float) -> None:
    assert parse_duration(text) == seconds


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("-1", "negative"),
        ("-0.1ns", "negative"),
        (-1, "negative"),
        (-1e-12, "negative"),
        (-HUGE, "negative"),
        (-math.inf, "negative"),
        (math.nan, "not a number"),
        (math.inf, "ten years"),
        (HUGE, "ten years"),
        ("3651d", "ten years"),
        (LONGEST_DURATION_S + 1, "ten years"),
        ("", "not a duration"),
        ("s", "not a duration"),
        ("nan", "not a duration"),
        ("inf", "not a duration"),
        ("1e3", "not a duration"),
        ("1_000", "not a duration"),
        ("1.", "not a duration"),
        (".", "not a duration"),
        ("1.2.3", "not a duration"),
        ("--5", "not a duration"),
        ("1h30", "not a duration"),  # minutes or seconds?
        ("30m1h", "not a duration"),
        ("1m1m", "not a duration"),
        ("1h-3m", "not a duration"),
        ("1hh3m", "not a duration"),
        ("-1h30m", "negative"),
        ("+5", "not a duration"),
        ("1 h 2", "not a duration"),
        ("5 weeks", "not a duration"),
        ("5S", "not a duration"),
        ("\u0663s", "not a duration"),
        ("9" * 5000, "not a duration"),
        (True, "not bool"),
        (None, "not NoneType"),
        (b"5s", "not bytes"),
        ([5], "not list"),
    ],
)
def test_refuses_what_is_no_duration(bad: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why) as caught:
        parse_duration(bad, field="grace")
    assert caught.value.field == "grace"
    assert caught.value.message.startswith("grace ")
    assert caught.value.remedy
    assert len(str(caught.value)) < 250


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (0.25, "250ms"),
        (0.0001, "0.1ms"),
        (1.5, "1.5s"),
        (59, "59s"),
        (90, "90s"),
        (600, "10m"),
        (7200, "2h"),
        (86_400, "1d"),
        (90_000, "25h"),
        (-1.5, "-1.5s"),
    ],
)
def test_writes_durations(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


@given(st.integers(min_value=0, max_value=LONGEST_DURATION_S * 10**9))
def test_a_written_duration_is_read_back(nanoseconds: int) -> None:
    seconds = nanoseconds / 1e9
    assert parse_duration(format_duration(seconds)) == parse_duration(seconds)


@given(st.floats(min_value=0, max_value=LONGEST_DURATION_S))
def test_durations_are_kept_to_the_nanosecond(seconds: float) -> None:
    read = parse_duration(seconds)
    assert abs(read - seconds) <= max(0.5e-9, seconds * 1e-15)
    assert parse_duration(read) == read


@given(st.text(max_size=20) | st.floats() | st.integers())
def test_a_duration_is_read_or_refused_and_nothing_else(anything: str | float) -> None:
    try:
        seconds = parse_duration(anything)
    except SpecError:
        return
    assert 0 <= seconds <= LONGEST_DURATION_S


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("64K", 65_536),
        ("10M", 10 << 20),
        ("2G", 2 << 30),
        ("1T", 1 << 40),
        ("1P", 1 << 50),
        ("64k", 65_536),
        ("5KiB", 5120),
        ("5kb", 5120),
        ("7B", 7),
        ("7", 7),
        ("0", 0),
        ("1.5G", 3 << 29),
        ("0.5K", 512),
        (12, 12),
        (LARGEST_SIZE, LARGEST_SIZE),
    ],
)
def test_reads_sizes(text: str | int, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize(
    ("bad", "why"),
    [
        ("-1", "negative"),
        (-1, "negative"),
        (LARGEST_SIZE + 1, "exbibyte"),
        ("2000P", "exbibyte"),
        ("0.3K", "whole number of bytes"),
        ("", "not a size"),
        ("K", "not a size"),
        ("1X", "not a size"),
        ("1iB", "not a size"),
        ("1KK", "not a size"),
        ("1BB", "not a size"),
        ("1i", "not a size"),
        ("1 2", "not a size"),
        ("9" * 5000, "not a size"),
        (1.5, "not float"),
        (True, "not bool"),
        (None, "not NoneType"),
    ],
)
def test_refuses_what_is_no_size(bad: Any, why: str) -> None:
    with pytest.raises(SpecError, match=why) as caught:
        parse_size(bad, field="memory")
    assert caught.value.field == "memory"
    assert caught.value.remedy


@pytest.mark.parametrize(
    ("bad", "why"),
    [("many", "is not a number"), ("1.5", "is not a whole number$"), ("-1", "negative"), (1.5, "not float")],
)
def test_a_count_is_no_size(bad: Any, why: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_size(bad, field="pids", of=COUNT)
    assert re.search(why, caught.value.message)
    assert "byte" not in str(caught.value)
    assert caught.value.remedy == "write a whole number, such as 500"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0B"), (1000, "1000B"), (65_536, "64K"), (3 << 29, "1536M"), (1 << 50, "1P")]
)
def test_writes_sizes(size: int, text: str) -> None:
    assert format_size(size) == text


@given(st.integers(min_value=0, max_value=LARGEST_SIZE))
def test_a_written_size_is_read_back(size: int) -> None:
    assert parse_size(format_size(size)) == size


@given(st.text(max_size=20) | st.integers())
def test_a_size_is_read_or_refused_and_nothing_else(anything: str | int) -> None:
    try:
        size = parse_size(anything)
    except SpecError:
        return
    assert 0 <= size <= LARGEST_SIZE
