"""Our named tuples behave like the ones of `typing`, in everything that Holdfast uses."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any
from typing import NamedTuple as Theirs

import pytest

from holdfast.values.fast_imports import NamedTuple as Ours


class OurPoint(Ours):
    """Where."""

    x: int
    y: int = 5

    @property
    def sum(self) -> int:
        return self.x + self.y


class TheirPoint(Theirs):
    """Where."""

    x: int
    y: int = 5

    @property
    def sum(self) -> int:
        return self.x + self.y


def seen(kind: Any) -> list[object]:
    """The visible behaviour of a tuple."""
    point = kind(1)
    first, second = point
    match point:
        case kind(a, b):
            matched = (a, b)
    return [
        repr(point).replace(kind.__name__, ""),
        point == (1, 5),
        hash(point) == hash((1, 5)),
        (first, second, point.x, point.y, point[1], len(point), point.sum, matched),
        kind(y=2, x=3),
        kind(*(4, 6)),
        point._replace(y=9),
        point._asdict(),
        kind._fields,
        kind._field_defaults,
        kind._make([7, 8]),
        kind.__doc__,
        isinstance(point, tuple),
        hasattr(point, "__dict__"),
        sorted([kind(2), kind(1)]),
        pickle.loads(pickle.dumps(point)) == point,
        type(pickle.loads(pickle.dumps(point))) is kind,
    ]


def test_they_are_alike() -> None:
    assert seen(OurPoint) == seen(TheirPoint)


@pytest.mark.parametrize("point", [OurPoint, TheirPoint])
def test_mistakes_are_errors(point: Any) -> None:
    for wrong in (point, lambda: point(1, 2, 3), lambda: point(1, z=2), lambda: point._make([1]), lambda: point()):
        with pytest.raises(TypeError):
            wrong()
    with pytest.raises(ValueError, match="z"):
        point(1)._replace(z=2)
    with pytest.raises(AttributeError):
        point(1).x = 2


@pytest.mark.parametrize("width", range(1, 14))
def test_any_number_of_fields(width: int) -> None:
    """Classes with few fields are made in another way than classes with many."""
    names = [f"field_{number}" for number in range(width)]
    members = {"__annotations__": dict.fromkeys(names, "int"), names[-1]: 99}
    metaclass: Any = type(Ours)
    ours = metaclass("Wide", (Ours,), members)
    assert ours(*range(width - 1)) == (*range(width - 1), 99)
    assert ours(**{name: number for number, name in enumerate(names)}) == tuple(range(width))
    assert ours(*range(width))._asdict() == {name: number for number, name in enumerate(names)}
    with pytest.raises(TypeError, match=r"Wide\.__new__\(\) got an unexpected keyword argument 'other'"):
        ours(other=1)


def test_a_run_from_the_command_line_imports_little(tmp_path: Path) -> None:
    heavy = {"typing", "enum", "re", "json", "collections", "dataclasses", "asyncio", "socket", "subprocess", "anyio"}
    heavy |= {"resource", "array", "holdfast.guard.pool", "holdfast.guard.inherited_state"}
    heavy |= {"holdfast.wording", "holdfast.cli.parsing.catalogue", "holdfast.cli.printing"}
    script = (
        f"import sys; sys.path[:0] = {sys.path!r}; before = set(sys.modules)\n"
        "from holdfast.cli.main import main\n"
        "code = main(['run', '--quiet', '--', 'true'])\n"
        f"print(code, *sorted({heavy!r} & (set(sys.modules) - before)))"
    )
    command = [sys.executable, "-S", "-c", script]  # without site, which may import any of them
    environment = {**os.environ, "HOLDFAST_STATE_DIR": str(tmp_path / "state")}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "0\n"
