"""The table of roles: every route is in it, and it says what the document says."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from starlette.routing import Route

from holdfast.access.caller import Caller
from holdfast.access.roles import Role
from holdfast.daemon.http import openapi
from holdfast.daemon.http.access.route_access import ROUTES, Reach, access_of, check_route
from holdfast.daemon.http.app import PathEndpoint, make_app
from holdfast.daemon.http.browser import dashboard
from holdfast.daemon.http.operations import PUBLIC
from holdfast.daemon.http.security import Security
from holdfast.web.problems import ProblemError
from holdfast.web.request_body import BodyBounds

if TYPE_CHECKING:
    from collections.abc import Iterator

REST = ("/openai/v1/{rest:path}",)  # only says that there is no such path: it needs no row, and no role but the highest


def operations() -> Iterator[tuple[str, str]]:
    """Method and path of every route of the whole application."""
    app = make_app(None, bounds=BodyBounds(1, 1.0), security=Security.of(None), agents=object())  # type: ignore[arg-type]
    for route in app.routes:
        assert isinstance(route, Route)
        if isinstance(route.endpoint, PathEndpoint):
            yield from ((method, route.path) for method in route.endpoint.methods)
        else:
            yield from ((method, route.path) for method in (route.methods or ()) if method != "HEAD")


def test_every_route_has_a_role_and_every_role_a_route() -> None:
    served = {(method, path) for method, path in operations() if path not in (*dashboard.paths(), *REST)}
    assert served == ROUTES.keys()


def test_every_operation_of_the_document_has_a_role() -> None:
    paths = json.loads(openapi.document())["paths"]
    documented = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert documented <= ROUTES.keys()
    assert len(documented) > 30


def test_what_needs_no_role_is_what_needs_no_token() -> None:
    assert {path for (_, path), access in ROUTES.items() if access.role is Role.NONE} == PUBLIC


def test_only_reading_is_open_to_readers() -> None:
    for (method, path), access in ROUTES.items():
        if access.role is Role.READ:
            assert method == "GET" or path == "/v1/login/session"  # a browser may always log out


def test_a_route_with_a_run_in_its_path_looks_at_the_run() -> None:
    for (method, path), access in ROUTES.items():
        if "{run_id}" in path:
            assert access.reach is (Reach.RUN if method == "GET" else Reach.OWN_RUN)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/unknown"),
        ("PUT", "/v1/runs"),
        ("POST", "/v1/runs/"),
        ("POST", "/v1/runs/x/cancel/"),
        ("POST", "/v1/runs/x/y/cancel"),
        ("GET", "/v1/runs\n"),
        ("POST", "/v1/runs\n"),
        ("get", "/v1/runs"),
    ],
)
def test_what_is_not_in_the_table_needs_the_highest_role(method: str, path: str) -> None:
    assert access_of(method, path).role is Role.ADMIN
    with pytest.raises(ProblemError) as refused:
        check_route(Caller("token", Role.OPERATE, "ci"), method, path)
    assert (refused.value.problem.status, refused.value.problem.role) == (403, "admin")


def test_a_head_needs_what_a_get_needs() -> None:
    assert access_of("HEAD", "/v1/runs/some-run/output") == access_of("GET", "/v1/runs/some-run/output")
    assert access_of("HEAD", "/v1/runs/some-run/output").role is Role.READ
