"""Checked options are cached, and each run still gets its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.values.spec_cache import new_spec

if TYPE_CHECKING:
    from collections.abc import Iterator


class Interrupted(list[str]):
    """An argv that starts another run while it is read: another thread can do that between any two steps."""

    def __iter__(self) -> Iterator[str]:
        new_spec(["other"], {"cwd": "/b", "timeout": 2})
        return super().__iter__()


def test_what_is_remembered_is_the_same_as_checked_again() -> None:
    first = new_spec(["one"], {"cwd": "/a", "timeout": 1})
    second = new_spec(["two", "three"], {"cwd": "/a", "timeout": 1})
    assert second.run_id != first.run_id
    assert second == first._replace(argv=("two", "three"), run_id=second.run_id)
    assert new_spec(["one"], {"cwd": "/a", "timeout": 1.5}).timeout_s == 1.5
    assert new_spec(["one"], {"cwd": "/a", "timeout": 1, "run_id": "mine"}).run_id == "mine"
    assert new_spec(["one"], {"cwd": "/a", "timeout": 1}).run_id != "mine"


def test_a_run_gets_its_own_options_when_another_is_asked_for_meanwhile() -> None:
    for _ in range(2):  # the second time they come from the cache
        spec = new_spec(Interrupted(["one"]), {"cwd": "/a", "timeout": 1})
        assert (spec.argv, spec.cwd, spec.timeout_s) == (("one",), "/a", 1.0)
        new_spec(["one"], {"cwd": "/a", "timeout": 1})
