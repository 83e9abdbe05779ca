"""The ladder as text and as pairs, in and out."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.values.ladder import MOST_RUNGS, Rung, format_ladder, parse_ladder
from holdfast.values.spec import make_spec

TERM, INT, KILL = int(signal.SIGTERM), int(signal.SIGINT), int(signal.SIGKILL)


@pytest.mark.parametrize(
    ("ladder", "rungs"),
    [
        ("INT:2s,TERM:8s,KILL", [(INT, 2.0), (TERM, 8.0), (KILL, 0.0)]),
        ("INT:2s,TERM:8s", [(INT, 2.0), (TERM, 8.0), (KILL, 0.0)]),
        ("INT, TERM:8s", [(INT, 7.0), (TERM, 8.0), (KILL, 0.0)]),
        ("KILL", [(KILL, 0.0)]),
        ("9", [(KILL, 0.0)]),
        ("SIGKILL:0", [(KILL, 0.0)]),
        ([("INT", 2), (15, "8s")], [(INT, 2.0), (TERM, 8.0), (KILL, 0.0)]),
        ([[signal.SIGINT, 0.5], (KILL, 0)], [(INT, 0.5), (KILL, 0.0)]),
        ((Rung(TERM, 1.0), Rung(KILL, 0.0)), [(TERM, 1.0), (KILL, 0.0)]),
    ],
)
def test_reads_ladders(ladder: Any, rungs: list[tuple[int, float]]) -> None:
    assert parse_ladder(ladder, grace_s=7.0) == tuple(rungs)
    assert make_spec(["true"], ladder=ladder, grace=7).ladder == tuple(rungs)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(sorted(int(number) for number in signal.valid_signals() if number != signal.SIGKILL)),
            st.integers(min_value=0, max_value=10**12).map(lambda nanoseconds: nanoseconds / 1e9),
        ),
        min_size=1,
        max_size=MOST_RUNGS - 1,
    )
)
def test_a_written_ladder_is_read_back(pairs: list[tuple[int, float]]) -> None:
    ladder = parse_ladder(pairs, grace_s=7.0)
    assert ladder[-1] == (KILL, 0.0)
    assert parse_ladder(format_ladder(ladder), grace_s=7.0) == ladder


def test_the_longest_ladder_is_the_guards() -> None:
    assert len(parse_ladder([("TERM", 1)] * (MOST_RUNGS - 1), grace_s=7.0)) == MOST_RUNGS
    header = Path(__file__).parents[2] / "native" / "spec.h"
    assert f"SPEC_RUNGS_MAX = {MOST_RUNGS} " in header.read_text()
