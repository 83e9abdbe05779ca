"""Conditions of being ready, as people write them."""

from __future__ import annotations

import pytest

from holdfast.values.errors import SpecError
from holdfast.values.ready_condition import HttpTarget, http_target
from holdfast.values.spec import make_spec


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("port:3000", "port:3000"),
        ("log:^ready, (a|b):", "log:^ready, (a|b):"),  # a comma and a colon are part of the expression
        ("http://127.0.0.1:3000/health", "http://127.0.0.1:3000/health"),
        ("http:http://localhost:80", "http://localhost:80"),
        ("http://[::1]:8080/?a=b", "http://[::1]:8080/?a=b"),
    ],
)
def test_a_condition_is_kept_in_one_form(given: str, kept: str) -> None:
    assert make_spec(["true"], ready=given).ready == (kept,)
    assert make_spec(["true"], ready=[kept]).ready == (kept,)


def test_the_parts_of_a_url() -> None:
    assert http_target("http://[::1]:8080/a?b=c") == HttpTarget("::1", 8080, "/a?b=c")
    assert http_target("http://[::1]:8080/a?b=c").authority == "[::1]:8080"
    assert http_target("http://localhost") == HttpTarget("localhost", 80, "/")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("3000", "no condition"),
        ("port:", "no condition"),
        ("port:70000", "not a port"),
        ("port:-1", "not a port"),
        ("udp:53", "no condition"),
        ("log:(", "invalid regular expression"),
        ("log:a\nb", "printable"),
        ("log:" + "a" * 1000, "printable"),
        ("http:localhost:3000", "not a plain http"),
        ("http:https://127.0.0.1/", "not a plain http"),
        ("http://user@127.0.0.1/", "not a plain http"),
        ("http://127.0.0.1:x/", "not a URL"),
        ("http://127.0.0.1/ HTTP/1.1", "not a URL"),
        ("http://example.com/", "not loopback"),
        ("http://10.0.0.1/", "not loopback"),
        ("http://127.0.0.1.example.com/", "not loopback"),
        ("http://0x7f000001/", "not loopback"),
        ("http://169.254.169.254/latest", "not loopback"),
    ],
)
def test_a_condition_that_can_never_hold_is_refused_at_the_start(given: str, why: str) -> None:
    with pytest.raises(SpecError, match=why) as caught:
        make_spec(["true"], ready=given)
    assert caught.value.field == "ready"


def test_a_port_in_a_container_and_too_many_conditions_are_refused() -> None:
    with pytest.raises(SpecError, match="port in a container"):
        make_spec(["true"], in_container="box", ready="port:3000")
    assert make_spec(["true"], in_container="box", ready="log:up").ready == ("log:up",)
    with pytest.raises(SpecError, match="more than 8"):
        make_spec(["true"], ready=["port:3000"] * 9)
