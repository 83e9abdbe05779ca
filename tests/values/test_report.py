"""The types of a report, held to the sidecar's schema; and a misspelt status, which mypy refuses.

mypy is strict here, so it rejects a `type: ignore` that has nothing to ignore: each one below says that the line before
it is an error.
"""

from __future__ import annotations

import json
from importlib import resources
from typing import Any, assert_type, get_args, get_type_hints

import pytest

import holdfast
from holdfast import outcome
from holdfast.values.report import OutputCounts, Report, State, Usage

SCHEMA = json.loads(resources.files("holdfast.sidecar").joinpath("schema.json").read_text())["$defs"]["Report"]


@pytest.mark.parametrize(
    ("typed", "schema"),
    [
        (Report, SCHEMA),
        (OutputCounts, SCHEMA["properties"]["output"]),
        (Usage, SCHEMA["properties"]["usage"]),
    ],
)
def test_the_fields_are_those_of_the_schema(typed: Any, schema: dict[str, Any]) -> None:
    hints = get_type_hints(typed)
    assert set(hints) == set(schema["properties"])
    for name, described in schema["properties"].items():
        may_be_null = "null" in described.get("type", ()) or None in described.get("enum", ()) or "anyOf" in described
        options = get_args(hints[name])
        assert (type(None) in options or Any in options) == may_be_null, name


def test_the_words_are_those_of_the_schema() -> None:
    assert list(get_args(State)) == SCHEMA["properties"]["state"]["enum"]
    limit, _none = get_args(get_type_hints(Report)["limit"])
    assert [*get_args(limit), None] == SCHEMA["properties"]["limit"]["enum"]
    assert list(get_args(get_type_hints(Report)["tree"])) == SCHEMA["properties"]["tree"]["enum"]
    assert get_args(holdfast.Status) == tuple(outcome.STATUSES)


@pytest.mark.guard
def test_a_misspelt_status_is_an_error_for_mypy() -> None:
    result = holdfast.run(["true"])
    assert assert_type(result.status, holdfast.Status) == "succeeded"
    assert assert_type(result.cause, holdfast.Cause) == "exit"
    assert result.status != "succeded"  # type: ignore[comparison-overlap]
    assert result.cause != "timeout"  # type: ignore[comparison-overlap]
    assert assert_type(result.report, holdfast.Report)["status"] == "succeeded"
    assert result.report["status"] != "time_out"  # type: ignore[comparison-overlap]
    with pytest.raises(KeyError):
        result.report["exitcode"]  # type: ignore[typeddict-item]
