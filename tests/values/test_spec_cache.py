"""Checked options are cached, and each run still gets its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from holdfast.values.errors import SpecError
from holdfast.values.spec import shared_fields
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


def test_descriptors_have_other_numbers_in_each_run_and_their_options_are_still_remembered() -> None:
    first = new_spec(["one"], {"cwd": "/a", "stdin": 7, "stdout": 8, "stderr": "inherit"})
    second = new_spec(["two"], {"cwd": "/a", "stdin": 9, "stdout": 10, "stderr": "inherit"})
    assert (second.stdin, second.stdout, second.stderr) == (9, 10, "inherit")
    assert second == first._replace(argv=("two",), run_id=second.run_id, stdin=9, stdout=10)
    assert second.ladder is first.ladder, "it was not made again"
    assert shared_fields(second) == shared_fields(first)
    assert shared_fields(second) != shared_fields(second._replace(stdout="inherit"))
    with pytest.raises(SpecError, match="no descriptor"):
        new_spec(["three"], {"cwd": "/a", "stdin": -1, "stdout": 10, "stderr": "inherit"})


def test_a_run_gets_its_own_options_when_another_is_asked_for_meanwhile() -> None:
    for _ in range(2):  # the second time they come from the cache
        spec = new_spec(Interrupted(["one"]), {"cwd": "/a", "timeout": 1})
        assert (spec.argv, spec.cwd, spec.timeout_s) == (("one",), "/a", 1.0)
        new_spec(["one"], {"cwd": "/a", "timeout": 1})


def test_an_unknown_option_is_named_and_not_a_function_of_ours() -> None:
    for name, told in (("tmeout", "'tmeout': did you mean 'timeout'?"), ("zzz", "'zzz'")):
        with pytest.raises(TypeError) as raised:
            new_spec(["true"], {name: 1})  # type: ignore[misc]
        assert str(raised.value) == f"unexpected keyword argument {told}"
