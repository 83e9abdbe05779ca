"""The HTTP application: routes from the table of operations, behind the access checks, with errors as problem JSON."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.routing import BaseRoute, Route

from ...config import Config, Effective
from ...values.errors import HoldfastError
from ...values.run_id import check_run_id
from ...values.spec import make_spec
from ...web import problems
from ...web.access_checks import AccessChecks
from ...web.problems import ProblemError, problem_of, problem_of_os_error, respond
from ...web.request_body import leave_unread
from . import openapi
from .access.auditing import Auditing
from .access.open_requests import OpenRequests
from .access.run_access import check_path
from .browser import dashboard
from .doors import doors_of, refuse
from .operations import OPERATIONS
from .routes import events

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from ...access.audit_log import AuditLog
    from ...access.tokens import TokenFile
    from ...web.request_body import BodyBounds
    from ..agents.agent_runs import AgentRuns
    from ..service.service import Service
    from .security import Security
    from .wire.operation import Operation

_log = logging.getLogger("holdfast.http")


def make_app(
    service: Service,
    *,
    bounds: BodyBounds,
    security: Security,
    agents: AgentRuns | None = None,
    tokens: TokenFile | None = None,
    audit: AuditLog | None = None,
    settings: Callable[[], Config] = Config,
    effective: Callable[[], Effective] | None = None,
    routes: Sequence[BaseRoute] = (),
) -> Starlette:
    """Make the application that all listeners share; the doors of `agents` and extra `routes` have the same checks."""
    doors = [] if agents is None else doors_of(agents, bounds)
    auditing = [] if audit is None else [Middleware(Auditing, log=audit)]
    watching = (
        [] if tokens is None else [Middleware(OpenRequests, tokens=tokens, session_of=security.logins.session_of)]
    )
    app = Starlette(
        routes=[*_routes(service, bounds), *events.routes(service), *dashboard.routes(), *doors, *routes],
        middleware=[*auditing, Middleware(AccessChecks, policy=security, respond=refuse), *watching],
        exception_handlers={
            ProblemError: _problem,
            HoldfastError: _refused,
            HTTPException: _http,
            ClientDisconnect: _gone,
            OSError: _system,
            Exception: _failed,
        },
    )
    app.state.head_s = bounds.within_s
    app.state.logins = security.logins
    app.state.tokens = tokens
    app.state.audit = audit
    app.state.settings = settings
    app.state.effective = effective
    app.router.redirect_slashes = False  # `/v1/runs/` is not `/v1/runs`
    return app


def _routes(service: Service, bounds: BodyBounds) -> list[BaseRoute]:
    paths: dict[str, dict[str, Operation]] = {}
    for operation in (*OPERATIONS, openapi.OPERATION):
        paths.setdefault(operation.path, {})[operation.method] = operation
    return [Route(path, PathEndpoint(methods, service, bounds)) for path, methods in paths.items()]


class PathEndpoint:
    """One path with all its operations: one route per path, so that a 405 can name the methods there are."""

    def __init__(self, methods: dict[str, Operation], service: Service, bounds: BodyBounds) -> None:
        self.methods = methods
        self._service = service
        self._bounds = bounds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        method = "GET" if request.method == "HEAD" else request.method
        operation = self.methods.get(method)
        if operation is None:
            allowed = ", ".join([*self.methods, *(["HEAD"] if "GET" in self.methods else [])])
            raise ProblemError(problems.NO_METHOD, f"this path takes {allowed}", headers={"Allow": allowed})
        _check_path(request)
        await check_path(self._service, request)
        try:
            response = await operation.respond(self._service, request, self._bounds)
        except ProblemError as error:
            if error.unread:
                await leave_unread(request)
            raise
        await response(scope, receive, send)


def _check_path(request: Request) -> None:
    """Refuse a path with a malformed run id (404) or session name (422), before it could become a file name."""
    run_id = request.path_params.get("run_id")
    if run_id is not None:
        try:
            check_run_id(run_id)
        except HoldfastError as error:
            raise ProblemError(problems.NO_RUN, error.message, remedy=error.remedy) from None
    if "session" in request.path_params:
        make_spec(("true",), session=request.path_params["session"])  # the spec has the rule for session names


async def _problem(_request: Request, error: Exception) -> Response:
    assert isinstance(error, ProblemError)
    return respond(error)


async def _refused(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HoldfastError)
    return respond(problem_of(error))


async def _system(request: Request, error: Exception) -> Response:
    assert isinstance(error, OSError)
    _log.warning("%s %s: %s", request.method, request.url.path, error)
    return respond(problem_of_os_error(error))


async def _http(_request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = problems.NOT_FOUND if error.status_code == 404 else problems.MALFORMED
    kind = problems.NO_METHOD if error.status_code == 405 else kind
    return respond(ProblemError(kind, headers=dict(error.headers or {})))


async def _gone(_request: Request, _error: Exception) -> Response:
    """The answer for a client that has disconnected: nobody reads it."""
    return respond(ProblemError(problems.MALFORMED, "the client disconnected"))


async def _failed(request: Request, error: Exception) -> Response:
    """The answer to a defect of ours. The log gets the text of the error, the client does not."""
    _log.error("%s %s failed", request.method, request.url.path, exc_info=error)
    return respond(ProblemError(problems.INTERNAL, remedy="the daemon's log has the details"))
