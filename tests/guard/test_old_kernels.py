"""Guards on kernels that lack a system call or a file: they do the same in another way."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import holdfast
from holdfast.guard import containment
from tests.support.evidence import BUSY_S, Stopwatch, all_of, assert_all_gone, outcome_of
from tests.support.processes import is_gone
from tests.support.readiness import names_in
from tests.support.shimmed import guard_without_children_files, guard_without_close_range

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.children import Children

pytestmark = pytest.mark.guard


@pytest.fixture
def no_cgroup() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as forced:
        forced.setenv(containment.FORCE_VARIABLE, "subreaper")
        containment.forget()
        yield
    containment.forget()


@pytest.mark.usefixtures("no_cgroup")
def test_a_tree_is_found_without_lists_of_children(
    child: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_without_children_files(tmp_path)))
    result = holdfast.run(child("daemonises", "stay"), timeout=1.5, grace=0.3)
    assert outcome_of(result) == ("timed_out", "deadline")
    assert is_gone(names_in(result.stdout)["daemon"])
    assert_all_gone(result.report)
    result = holdfast.run(child("grows_tree", 5, "stubborn"), timeout=1.5, grace=0.3)
    assert [fact.detail["reached"] for fact in all_of(result.facts, "signalled")] == [6, 6]
    assert_all_gone(result.report)


def test_descriptors_are_closed_without_close_range(
    child: Children, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_GUARD", str(guard_without_close_range(tmp_path)))
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        with Stopwatch() as watch:
            result = holdfast.run(child("lists_descriptors"))
    finally:
        os.close(secret)
    assert watch.seconds < BUSY_S  # a call for each of 2^30 numbers takes a minute
    assert [int(line.split()[0]) for line in result.stdout.splitlines() if line[:1].isdigit()] == [0, 1, 2]
