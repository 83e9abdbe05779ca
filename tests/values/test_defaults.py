"""`holdfast.defaults`: options for all later runs of this process, checked at once and taken back."""

from __future__ import annotations

import pytest

from holdfast import SpecError, defaults
from holdfast.values.spec_cache import new_spec


def test_defaults_are_added_overridden_and_taken_back() -> None:
    with defaults(grace="2s"):
        with defaults(memory="1M"):
            spec = new_spec(["true"], {})
            assert (spec.grace_s, spec.memory_bytes) == (2.0, 1 << 20)
            assert new_spec(["true"], {"memory": None}).memory_bytes is None
        assert new_spec(["true"], {}).memory_bytes is None
    assert new_spec(["true"], {}).grace_s == 10.0


def test_without_options_all_defaults_are_taken_back() -> None:
    with defaults(grace=3), defaults():
        assert new_spec(["true"], {}).grace_s == 10.0


@pytest.mark.parametrize(("name", "value"), [("run_id", "x"), ("cwd", "/"), ("grace", "soon"), ("no_option", 1)])
def test_a_wrong_default_is_refused_at_once(name: str, value: object) -> None:
    with pytest.raises(SpecError):
        defaults(**{name: value})  # type: ignore[arg-type]
    assert new_spec(["true"], {}).grace_s == 10.0
