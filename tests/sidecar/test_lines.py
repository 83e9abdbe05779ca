"""Lines, requests, parameters: from bytes to values."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]
import pytest

from holdfast.sidecar import protocol
from holdfast.sidecar.methods import SidecarMethods, spec_options
from holdfast.sidecar.schema import WORDS, check_params, schema
from holdfast.streams.lines import LineSplitter
from holdfast.values.errors import SpecError
from holdfast.values.options import OPTIONS, SIDECAR
from holdfast.values.spec import make_spec


@pytest.fixture(autouse=True)
def nothing_left_behind() -> None:
    """Replace the check for processes and descriptors: this module tests pure functions."""


def test_lines_come_out_whole_however_they_were_cut() -> None:
    expected = [b"", b"one", b"x" * 100, b"", b"two\r not the end", b"three"]
    data = b"\n".join([*expected[:-1], b"three\r"]) + b"\nrest"
    for seed in range(50):
        lines, found, left, chance = LineSplitter(), list[bytes | None](), data, random.Random(seed)
        while left:
            cut = chance.randint(1, 12)
            found += lines.feed(left[:cut])
            left = left[cut:]
        assert found == expected
        assert lines.is_begun


def test_a_line_that_is_too_long_is_skipped_and_not_kept() -> None:
    lines = LineSplitter(longest=10)
    assert lines.feed(b"0123456789\n") == [b"0123456789"]
    assert lines.feed(b"0123456789") == []
    assert lines.feed(b"a" * 1000) == []
    assert lines.feed(b"b\nshort\n" + b"c" * 11 + b"\nnext\n") == [None, b"short", None, b"next"]
    assert not lines.is_begun


@pytest.mark.parametrize(
    ("line", "code"),
    [
        (b"{", -32700),
        (b"\xff\xfe", -32700),
        (b"[" * 100_000, -32700),
        (b"9" * 10_000, -32700),
        (b"[]", -32600),
        (b"3", -32600),
        (b"null", -32600),
        (b"{}", -32600),
        (b'{"jsonrpc":"2.0","id":1}', -32600),
        (b'{"jsonrpc":"1.0","id":1,"method":"list"}', -32600),
        (b'{"jsonrpc":"2.0","id":true,"method":"list"}', -32600),
        (b'{"jsonrpc":"2.0","id":{},"method":"list"}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":3}', -32600),
        (b'{"jsonrpc":"2.0","id":1,"method":"list","params":[1]}', -32602),
        (json.dumps([1] * 1001).encode(), -32600),
    ],
)
def test_what_is_no_request_has_an_answer(line: bytes, code: int) -> None:
    (invalid,) = protocol.parse(line).calls
    assert isinstance(invalid, protocol.InvalidCall)
    assert invalid.error["code"] == code
    protocol.encode(protocol.failure(invalid.id, invalid.error))


def test_any_bytes_have_an_answer() -> None:
    chance = random.Random(1)
    seed = b'{"jsonrpc":"2.0","id":1,"method":"start","params":{"argv":["a"]}}'
    for _ in range(2000):
        data = bytearray(seed)
        for _ in range(chance.randint(1, 5)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        for call in protocol.parse(bytes(data)).calls:
            assert isinstance(call, (protocol.RpcCall, protocol.InvalidCall))


def test_a_call_and_a_notification() -> None:
    message = protocol.parse(
        b'[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","method":"b","id":null,"params":{"c":1}}]'
    )
    assert message == ([protocol.RpcCall("a", {}, None, False), protocol.RpcCall("b", {"c": 1}, None, True)], True)


@pytest.mark.parametrize(
    ("method", "params", "field"),
    [
        ("start", {}, "argv"),
        ("start", {"argv": []}, "argv"),
        ("start", {"argv": ["a", 1]}, "argv[1]"),
        ("start", {"argv": ["a"], "pty": 1}, "pty"),
        ("start", {"argv": ["a"], "timeout_s": True}, "timeout_s"),
        ("start", {"argv": ["a"], "timeout_s": float("nan")}, "timeout_s"),
        ("start", {"argv": ["a"], "timeout": 3}, "timeout"),
        ("start", {"argv": ["a"], "env": {"A": 1}}, "env.A"),
        ("start", {"argv": ["a"], "stragglers": "eat"}, "stragglers"),
        ("start", {"argv": ["a"], "output": {"credit_bytes": -1}}, "output.credit_bytes"),
        ("credit", {"run_id": "a", "bytes": 1.5}, "bytes"),
        ("credit", {"run_id": "a", "bytes": 0}, "bytes"),
        ("wait", {"run_id": None}, "run_id"),
    ],
)
def test_wrong_parameters_are_named(method: str, params: dict[str, Any], field: str) -> None:
    with pytest.raises(SpecError) as refused:
        check_params(method, params)
    assert refused.value.field == field


def rules(part: Any) -> list[dict[str, Any]]:
    """Every schema in a schema."""
    inner = [
        *part.get("properties", {}).values(),
        *part.get("anyOf", []),
        part.get("items"),
        part.get("additionalProperties"),
    ]
    return [part, *[rule for child in inner if isinstance(child, dict) for rule in rules(child)]]


def all_schemas() -> list[dict[str, Any]]:
    document = schema()
    methods = [method[side] for method in document["methods"].values() for side in ("params", "result")]
    return [*methods, *[it["params"] for it in document["notifications"].values()], *document["$defs"].values()]


def test_the_schema_is_one_and_says_only_what_is_checked() -> None:
    jsonschema.Draft202012Validator.check_schema({"anyOf": all_schemas(), "$defs": schema()["$defs"]})
    for part in all_schemas():
        for rule in rules(part):
            assert rule.keys() <= WORDS, rule


def test_our_check_agrees_with_a_real_one() -> None:
    """Our few lines refuse the same values as the library that knows all of JSON Schema."""
    chance, values = (
        random.Random(2),
        [None, True, 0, 1, -1, 1.5, "a", "", [], ["a"], [1], {}, {"credit_bytes": 1}, "kill"],
    )
    for method, part in schema()["methods"].items():
        real = jsonschema.Draft202012Validator({**part["params"], "$defs": schema()["$defs"]})
        names = [*part["params"]["properties"], "unknown"]
        for _ in range(200):
            params = {
                name: chance.choice(values) for name in chance.sample(names, min(len(names), chance.randint(0, 4)))
            }
            try:
                check_params(method, params)
                ours = True
            except SpecError:
                ours = False
            assert ours == real.is_valid(params), (method, params)


def test_the_schema_has_every_method_and_every_option() -> None:
    methods = SidecarMethods(None, None, None, None)  # type: ignore[arg-type]
    assert set(schema()["methods"]) == {*methods.in_order, *methods.at_once, "shutdown"}
    assert not methods.in_order.keys() & methods.at_once.keys()
    params = set(schema()["methods"]["start"]["params"]["properties"])
    of_a_run = {option.json_name for option in OPTIONS if SIDECAR in option.surfaces}
    assert params == of_a_run | {"argv", "output", "window_size", "keep"}
    codes = {code for method in schema()["methods"].values() for code in method["errors"]}
    assert codes <= {int(code) for code in schema()["errors"]}


def test_public_names_become_options() -> None:
    params = {"argv": ["a"], "timeout_s": 3.0, "memory_bytes": 4096, "env_drop": ["*"], "keep": True}
    options = spec_options(params)
    assert options == {"timeout": 3.0, "memory": 4096, "env_drop": ["*"]}
    assert make_spec(["a"], **options).memory_bytes == 4096
    with pytest.raises(SpecError, match="carries the protocol"):
        spec_options({"stdin": "inherit"})
