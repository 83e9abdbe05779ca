"""A guard with few descriptors keeps its clocks, and an output limit is a verdict even for a fast command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import holdfast
from tests.support.driven import Driven, Gate
from tests.support.evidence import assert_all_gone, kinds, one, outcome_of
from tests.support.guards import guard_as

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.guard


@pytest.mark.parametrize("descriptors", range(16, 25))
def test_clocks_go_on_with_few_descriptors(descriptors: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel refuses to poll more entries than a process may have open files."""
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_as(tmp_path, ["prlimit", f"--nofile={descriptors}"])))
    with Driven(["sleep", "60"], timeout=0.3, grace=5) as run:
        result = run.settle()
        assert run.guard_cpu_s() < 0.5
    if "started" in kinds(result.facts):
        assert outcome_of(result) == ("timed_out", "deadline")
    else:
        assert descriptors < 18, "there was room to start"
        assert outcome_of(result) == ("failed", "spawn")
    assert_all_gone(result.report)


def test_control_with_many_descriptors_it_is_the_same() -> None:
    assert outcome_of(holdfast.run(["sleep", "60"], timeout=0.3)) == ("timed_out", "deadline")


@pytest.mark.usefixtures("contained")
def test_more_output_than_allowed_is_always_the_verdict() -> None:
    for _ in range(60):
        result = holdfast.run(["echo", "0123456789abcdef"], max_output=8, timeout=60)
        assert outcome_of(result) == ("failed", "limit")
        assert result.stdout == b"01234567"


@pytest.mark.parametrize(("allowed", "outcome"), [(16, ("failed", "limit")), (17, ("succeeded", "exit"))])
@pytest.mark.parametrize("pty", [False, True])
def test_so_it_is_when_the_guard_looks_only_after_the_exit(
    allowed: int, outcome: tuple[str, str], pty: bool, tmp_path: Path
) -> None:
    there, gate = Gate(tmp_path / "there"), Gate(tmp_path / "gate")
    line = f"echo >{there.path}; read -r _ <{gate.path}; printf '0123456789abcdef.'"
    with Driven(["sh", "-c", line], max_output=allowed, pty=pty, timeout=60) as run:
        run.exit_unseen(there, gate)
        result = run.settle()
    assert outcome_of(result) == outcome
    assert result.stdout == b"0123456789abcdef."[:allowed]
    assert one(result.facts, "exited").detail["wait_status"] == 0
    assert one(result.facts, "drained").detail["dropped_bytes"] == 17 - allowed
