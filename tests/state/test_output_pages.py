"""Pages of output: every byte once, in order, cut between characters."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from holdfast.state.directory import StateDirectory
from holdfast.state.output_pages import read_page, read_tail

from ..support.durable import DurableRun, run_to_end

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children

TEXT = "aä€😀" * 50  # characters of one, two, three and four bytes


@pytest.fixture
def state(tmp_path: Path) -> StateDirectory:
    return StateDirectory.open(str(tmp_path / "state"))


@pytest.mark.parametrize("limit", [4, 5, 7, 64, 4096])
def test_pages_put_together_are_the_text(state: StateDirectory, limit: int) -> None:
    run_id = run_to_end(state, ["printf", "%s", TEXT])
    found, offset, total = "", 0, len(TEXT.encode())
    while offset < total:
        page = read_page(state, run_id, offset, limit)
        assert (page.offset, page.total) == (offset, total)
        assert page.next_offset > offset
        assert page.next_offset - offset <= limit
        assert "\ufffd" not in page.text
        found, offset = found + page.text, page.next_offset
    assert found == TEXT


def test_a_page_that_is_too_small_for_a_character_still_gets_on(state: StateDirectory) -> None:
    run_id = run_to_end(state, ["printf", "%s", "😀x"])
    offset, texts = 0, []
    while offset < 5:
        page = read_page(state, run_id, offset, 1)
        assert page.next_offset == offset + 1
        offset = page.next_offset
        texts.append(page.text)
    assert texts == ["\ufffd"] * 4 + ["x"]


def test_beyond_the_end_there_is_nothing(state: StateDirectory) -> None:
    run_id = run_to_end(state, ["printf", "%s", "abc"])
    assert read_page(state, run_id, 3, 10) == ("", 3, 3, 3)
    assert read_page(state, run_id, 1000, 10) == ("", 3, 3, 3)
    assert read_page(state, run_id, 0, 0) == ("", 0, 0, 3)


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11])
def test_the_tail_begins_with_a_whole_character(state: StateDirectory, limit: int) -> None:
    whole = "aä€😀b".encode()
    run_id = run_to_end(state, ["printf", "%s", whole.decode()])
    page = read_tail(state, run_id, limit)
    assert page.next_offset == page.total == len(whole)
    assert len(whole) - page.offset <= limit
    assert whole[page.offset :] == page.text.encode()


@pytest.mark.parametrize("limit", [999, 1 << 20])
def test_pages_go_on_behind_output_that_was_taken_out(state: StateDirectory, limit: int) -> None:
    run_id = run_to_end(state, ["seq", "1", "9999"], max_output=8192, on_max_output="roll")
    whole = "".join(f"{number}\n" for number in range(1, 10000))
    pages = [read_page(state, run_id, 0, limit)]
    while pages[-1].next_offset < len(whole):
        pages.append(read_page(state, run_id, pages[-1].next_offset, limit))
    for page in pages:
        assert (page.text, page.total) == (whole[page.offset : page.next_offset], len(whole))
        assert 0 < len(page.text) <= limit
    ((head_end, tail_begin),) = [
        (before.next_offset, page.offset) for before, page in pairwise(pages) if before.next_offset != page.offset
    ]
    assert head_end == 4096 < tail_begin
    assert read_page(state, run_id, 5000, 10)[:2] == (whole[tail_begin : tail_begin + 10], tail_begin)
    assert read_tail(state, run_id, 10)[:2] == (whole[-10:], len(whole) - 10)
    assert read_tail(state, run_id, len(whole))[:2] == (whole[tail_begin:], tail_begin), "nothing of the head"


def test_bytes_that_are_no_text_are_shown_as_such(state: StateDirectory) -> None:
    run_id = run_to_end(state, ["printf", r"a\377\200b\303"])
    assert read_page(state, run_id, 0, 100) == ("a\ufffd\ufffdb\ufffd", 0, 5, 5)


def test_what_is_late_is_not_handed_out(state: StateDirectory, child: Children) -> None:
    with DurableRun(state, child("exits_on_term", 0), timeout=1) as run:
        run.until_ended()
        with run.record() as record:
            late = record.reader.late_bytes
            both = record.reader.stdout_bytes + record.reader.stderr_bytes
    page = read_page(state, run.run_id, 0, 1 << 20)
    assert late == len(b"bye\n")
    assert page.total == both - late
    assert "bye" not in page.text
    assert read_tail(state, run.run_id, 1 << 20).text == page.text
