"""Signals by name and number."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.values.errors import SpecError
from holdfast.values.signals import parse_signal, signal_name


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("TERM", 15),
        ("SIGTERM", 15),
        ("sigterm", 15),
        (" int ", 2),
        ("15", 15),
        (15, 15),
        (signal.SIGKILL, 9),
        ("STOP", signal.SIGSTOP),
        ("CLD", signal.SIGCHLD),
        ("RTMIN", signal.SIGRTMIN),
        ("RTMIN+3", signal.SIGRTMIN + 3),
        ("SIGRTMAX-1", signal.SIGRTMAX - 1),
    ],
)
def test_reads_signals(text: str | int, number: int) -> None:
    assert parse_signal(text) == number
    assert type(parse_signal(text)) is int


@pytest.mark.parametrize(
    "bad",
    [
        *("", "SIG", "FOO", "TERM+1", "RTMIN-1", "RTMAX+1", "RTMIN+", "RTMIN+x", "-15", "99999", "0", "X" * 5000),
        *(0, -1, 65, 10**30),
        *(True, None, 15.0, b"TERM", ["TERM"]),
    ],
)
def test_refuses_what_is_no_signal(bad: Any) -> None:
    with pytest.raises(SpecError) as caught:
        parse_signal(bad, field="warn_signal")
    assert caught.value.field == "warn_signal"
    assert caught.value.remedy
    assert len(str(caught.value)) < 200


def test_refuses_the_signals_the_c_library_keeps() -> None:
    for number in range(signal.SIGSYS + 1, signal.SIGRTMIN):
        with pytest.raises(SpecError):
            parse_signal(number)


@pytest.mark.parametrize("number", sorted(int(number) for number in signal.valid_signals()))
def test_every_name_is_read_back(number: int) -> None:
    assert signal_name(number).startswith("SIG")
    assert parse_signal(signal_name(number)) == number


def test_an_unknown_number_is_shown_as_one() -> None:
    assert signal_name(0) == "signal 0"
    assert signal_name(999) == "signal 999"


@given(st.text(max_size=12) | st.integers())
def test_a_signal_is_read_or_refused_and_nothing_else(anything: str | int) -> None:
    try:
        number = parse_signal(anything)
    except SpecError:
        return
    assert number in signal.valid_signals()
