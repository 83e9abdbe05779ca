"""The doors, asked about real runs: they say what is recorded, and what is recorded is what people agreed to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.cli.commands.acp import OPTIONS

from . import table
from .acp_scenes import ACP_COLUMNS
from .seen import DOORS, seen_by_doors

if TYPE_CHECKING:
    from pathlib import Path

AGREED = {line[0]: dict(zip(table.reviewed()[0], line, strict=True)) for line in table.reviewed()[1:]}


@pytest.mark.timeout(300)
def test_the_doors_say_what_is_recorded(tmp_path: Path) -> None:
    assert seen_by_doors(tmp_path) == table.read(table.SEEN), "run: python -m tests.projections.seen"


def test_what_was_seen_is_what_was_agreed() -> None:
    told = table.seen()
    for line, cells in told.items():
        assert DOORS.keys() <= cells.keys()
        assert cells == {column: table.shown_by_door(line, column, AGREED[line][column]) for column in cells}, line
    # The lines without a scene: `scenes.py` says why.
    assert AGREED.keys() - told.keys() == {
        "signal 11, core dumped",
        "user by SIGINT, exit 0 late",
        "oom",
        "stopped: parent",
        "stopped: owner",
        "stopped: superseded",
        "limit: memory",
        "limit: session_memory",
        "limit: session_processes",
        "not spawned: setup",
        "not spawned: fork",
        "not spawned: stdio",
        "lost: host",
        "vanished",
    }
    # The lines that only the doors of the daemon have: the page says why.
    assert {line for line, cells in told.items() if not ACP_COLUMNS.keys() & cells.keys()} == table.NOT_IN_ACP.keys()
    assert "--max-output" not in [option.flag for option in OPTIONS], "why a budget of output cannot be spent there"


def test_control_a_late_exit_0_is_not_told_as_a_success_by_any_door() -> None:
    told = table.seen()
    late, success = told["deadline, exit 0 late"], told["exit 0"]
    assert late.keys() == success.keys() == {*DOORS, *ACP_COLUMNS}
    assert all(late[column] != success[column] for column in late)
