"""The protocol's schema file (`schema.json`), and the check of a call's parameters against it.

The types of clients are generated from the same file. The check knows only the keywords of JSON Schema that the file
uses; a test finds others.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from ..values.errors import SpecError

_RULES = "type properties required additionalProperties items enum anyOf minimum minItems $ref"
_REMARKS = "description contentEncoding"
WORDS = frozenset(f"{_RULES} {_REMARKS}".split())
_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "integer": (int,),
    "number": (int, float),
    "null": (type(None),),
}


@cache
def schema() -> dict[str, Any]:
    """The parsed schema file."""
    document: dict[str, Any] = json.loads(files("holdfast.sidecar").joinpath("schema.json").read_text("utf-8"))
    return document


def check_params(method: str, params: dict[str, Any]) -> None:
    """Check the parameters of a method. SpecError names the field that breaks the schema."""
    problem = _problem(schema()["methods"][method]["params"], params, "")
    if problem is not None:
        where, what = problem
        field = where.lstrip(".")
        raise SpecError(f"{field or 'params'} {what}", field=field or None, remedy=f"see the schema of `{method}`")


def _problem(rule: dict[str, Any], value: Any, where: str) -> tuple[str, str] | None:
    """The place and the text of the first breach of the rule; None when the value keeps it."""
    if "$ref" in rule:
        return _problem(schema()["$defs"][rule["$ref"].rpartition("/")[2]], value, where)
    if "anyOf" in rule:
        problems = [_problem(choice, value, where) for choice in rule["anyOf"]]
        return None if None in problems else problems[0]
    if "enum" in rule:
        return None if value in rule["enum"] else (where, f"is not one of {', '.join(map(str, rule['enum']))}")
    if not _is(value, rule.get("type", ())):
        kinds = rule["type"] if isinstance(rule["type"], str) else " or ".join(rule["type"])
        return where, f"is not of type {kinds}"
    if isinstance(value, dict):
        return _object_problem(rule, value, where)
    if isinstance(value, list):
        if len(value) < rule.get("minItems", 0):
            return where, "is empty"
        found = (_problem(rule["items"], item, f"{where}[{place}]") for place, item in enumerate(value))
        return next((problem for problem in found if problem is not None), None)
    if "minimum" in rule and not value >= rule["minimum"]:  # `not >=`, because NaN is neither
        return where, f"is less than {rule['minimum']}"
    return None


def _object_problem(rule: dict[str, Any], value: dict[str, Any], where: str) -> tuple[str, str] | None:
    known, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    for name in rule.get("required", ()):
        if name not in value:
            return f"{where}.{name}", "is missing"
    for name, item in value.items():
        inner = known.get(name, others)
        if inner is False:
            return f"{where}.{name[:60]}", "is not known"
        if isinstance(inner, dict) and (problem := _problem(inner, item, f"{where}.{name[:60]}")) is not None:
            return problem
    return None


def _is(value: Any, kinds: str | list[str]) -> bool:
    names = [kinds] if isinstance(kinds, str) else kinds
    # bool is an int in Python and not in JSON.
    return any(isinstance(value, _TYPES[name]) and (name == "boolean") == isinstance(value, bool) for name in names)
