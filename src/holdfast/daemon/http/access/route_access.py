"""Who may use which route: the role that every operation needs, and what a caller bound to one session may ask.

This table is the only place that says so. A path outside of it needs the role `admin`; a test compares the table with
all routes and with the OpenAPI document, so a new route cannot be forgotten.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ....access.roles import Role
from ....web.problems import ROLE_NEEDED, ProblemError

if TYPE_CHECKING:
    from ....access.caller import Caller


class Reach(Enum):
    """What a route is about, for a caller that is bound to one session."""

    RUN = "the run in the path: the caller must see it"
    OWN_RUN = "as RUN; with the role submit, the caller must have posted it"
    SESSION = "the route narrows its answer to the session of the caller"
    ANY = "nothing about runs"
    ALL = "all runs, or the host: refused"


class RouteAccess(NamedTuple):
    """What a caller needs for one operation."""

    role: Role
    reach: Reach


_RUN = "/v1/runs/{run_id}"
_OPENAI, _A2A = "/openai/v1", "/a2a/{agent}"
ROUTES: dict[tuple[str, str], RouteAccess] = {
    # For everybody, as the files of the dashboard are, which have no row.
    ("GET", "/livez"): RouteAccess(Role.NONE, Reach.ANY),
    ("GET", "/readyz"): RouteAccess(Role.NONE, Reach.ANY),
    ("POST", "/v1/login"): RouteAccess(Role.NONE, Reach.ANY),
    ("GET", "/v1/runs"): RouteAccess(Role.READ, Reach.SESSION),
    ("GET", _RUN): RouteAccess(Role.READ, Reach.RUN),
    ("GET", f"{_RUN}/spec"): RouteAccess(Role.READ, Reach.RUN),
    ("GET", f"{_RUN}/wait"): RouteAccess(Role.READ, Reach.RUN),
    ("GET", f"{_RUN}/evidence"): RouteAccess(Role.READ, Reach.RUN),
    ("GET", f"{_RUN}/deliveries"): RouteAccess(Role.READ, Reach.RUN),
    ("GET", f"{_RUN}/output"): RouteAccess(Role.READ, Reach.RUN),
    ("GET", f"{_RUN}/processes"): RouteAccess(Role.READ, Reach.RUN),
    ("GET", f"{_RUN}/timeline"): RouteAccess(Role.READ, Reach.RUN),
    ("GET", "/v1/processes"): RouteAccess(Role.READ, Reach.SESSION),
    ("GET", "/v1/search"): RouteAccess(Role.READ, Reach.SESSION),
    ("GET", "/v1/sessions"): RouteAccess(Role.READ, Reach.SESSION),
    ("GET", "/v1/events"): RouteAccess(Role.READ, Reach.SESSION),
    ("GET", "/v1/statistics"): RouteAccess(Role.READ, Reach.ALL),
    ("GET", "/v1/health"): RouteAccess(Role.READ, Reach.ANY),
    ("GET", "/metrics"): RouteAccess(Role.READ, Reach.ALL),
    ("GET", "/openapi.json"): RouteAccess(Role.READ, Reach.ANY),
    ("GET", "/v1/login/session"): RouteAccess(Role.READ, Reach.ANY),
    ("DELETE", "/v1/login/session"): RouteAccess(Role.READ, Reach.ANY),
    ("GET", f"{_OPENAI}/models"): RouteAccess(Role.READ, Reach.ALL),
    ("GET", f"{_OPENAI}/models/{{name}}"): RouteAccess(Role.READ, Reach.ALL),
    ("GET", f"{_OPENAI}/responses/{{response}}"): RouteAccess(Role.READ, Reach.ALL),
    ("GET", f"{_A2A}/.well-known/agent-card.json"): RouteAccess(Role.READ, Reach.ALL),
    ("POST", "/v1/runs"): RouteAccess(Role.SUBMIT, Reach.SESSION),
    ("POST", f"{_RUN}/cancel"): RouteAccess(Role.SUBMIT, Reach.OWN_RUN),
    ("POST", f"{_RUN}/input"): RouteAccess(Role.SUBMIT, Reach.OWN_RUN),
    ("POST", f"{_RUN}/extend"): RouteAccess(Role.SUBMIT, Reach.OWN_RUN),
    ("POST", f"{_RUN}/signal"): RouteAccess(Role.SUBMIT, Reach.OWN_RUN),
    ("POST", f"{_RUN}/resize"): RouteAccess(Role.SUBMIT, Reach.OWN_RUN),
    # The doors: their handlers look at the owner of a run, whose id is not in the path.
    ("POST", f"{_OPENAI}/responses"): RouteAccess(Role.SUBMIT, Reach.ALL),
    ("POST", f"{_OPENAI}/responses/{{response}}/cancel"): RouteAccess(Role.SUBMIT, Reach.ALL),
    ("POST", _A2A): RouteAccess(Role.SUBMIT, Reach.ALL),
    ("POST", f"{_A2A}/"): RouteAccess(Role.SUBMIT, Reach.ALL),
    ("DELETE", "/v1/sessions/{session}"): RouteAccess(Role.OPERATE, Reach.SESSION),
    ("POST", "/v1/sessions/{session}/open"): RouteAccess(Role.OPERATE, Reach.SESSION),
    ("GET", "/v1/hosts"): RouteAccess(Role.READ, Reach.ALL),
    ("GET", "/v1/doctor"): RouteAccess(Role.OPERATE, Reach.ALL),
    ("GET", "/v1/doctor/repairs"): RouteAccess(Role.OPERATE, Reach.ALL),
    ("POST", "/v1/doctor/repairs"): RouteAccess(Role.OPERATE, Reach.ALL),
    ("POST", "/v1/login-links"): RouteAccess(Role.ADMIN, Reach.ALL),
    ("GET", "/v1/config"): RouteAccess(Role.ADMIN, Reach.ALL),
    ("GET", "/v1/audit"): RouteAccess(Role.ADMIN, Reach.ALL),
    ("GET", "/v1/tokens"): RouteAccess(Role.ADMIN, Reach.ALL),
    ("POST", "/v1/tokens"): RouteAccess(Role.ADMIN, Reach.ALL),
    ("DELETE", "/v1/tokens/{token}"): RouteAccess(Role.ADMIN, Reach.ALL),
}
_UNKNOWN = RouteAccess(Role.ADMIN, Reach.ALL)


def _pattern(template: str) -> re.Pattern[str]:
    parts = re.split(r"\{[a-z_]+\}", template)
    return re.compile("[^/]+".join(map(re.escape, parts)))


_PATTERNS = [(method, _pattern(path), access) for (method, path), access in ROUTES.items()]


def access_of(method: str, path: str) -> RouteAccess:
    """What a caller needs for this request."""
    asked = "GET" if method == "HEAD" else method
    return next((access for known, fits, access in _PATTERNS if known == asked and fits.fullmatch(path)), _UNKNOWN)


def check_route(caller: Caller, method: str, path: str) -> None:
    """Check the role of the caller. ProblemError 403: it is too low, or the caller is bound to a session."""
    if caller.is_unbounded:
        return
    access = access_of(method, path)
    if caller.role < access.role:
        raise role_needed(caller, access.role)
    if caller.session is not None and access.reach is Reach.ALL:
        detail = f"the token {caller.token!r} is for the session {caller.session!r}, and this is about all runs"
        raise ProblemError(ROLE_NEEDED, detail, remedy="ask with a token that has no session")


def role_needed(caller: Caller, role: Role, what: str = "this") -> ProblemError:
    """The 403 that names the role which the caller does not have."""
    detail = f"{what} needs the role {role.word}, and the token {caller.token!r} has the role {caller.role.word}"
    remedy = f"ask with a token of the role {role.word}: holdfast token create NAME --role {role.word}"
    return ProblemError(ROLE_NEEDED, detail, remedy=remedy, role=role.word)
