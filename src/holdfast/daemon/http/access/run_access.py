"""Which runs a caller may see and touch: those of its session, and for some requests only its own.

A run that the caller may not see is answered as a run that does not exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from ....access.caller import OWNER_LABEL, STRANGER, caller_of
from ....access.roles import Role
from ....values.errors import HoldfastError, RunNotFoundError
from ....web.problems import FORBIDDEN, NO_RUN, NOT_FOUND, ProblemError
from .route_access import Reach, access_of, role_needed

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from starlette.requests import Request

    from ....access.caller import Caller
    from ...queue.submission import Submission
    from ...service.service import Service


async def check_path(service: Service, request: Request) -> None:
    """Check the run or the session in the path. ProblemError: 404, the caller does not see it; 403, it is not its own.

    Other errors as `Service.report`.
    """
    caller, parameters = caller_of(request.scope), request.path_params
    if caller.is_unbounded or caller is STRANGER:
        return
    if caller.session is not None and parameters.get("session", caller.session) != caller.session:
        raise ProblemError(NOT_FOUND, "there is no such session")
    if "run_id" not in parameters:
        return
    report = await visible(service, caller, parameters["run_id"])
    if access_of(request.method, request.scope["path"]).reach is Reach.OWN_RUN:
        check_own(caller, report)


async def visible(service: Service, caller: Caller, run_id: str) -> Mapping[str, Any]:
    """The report of a run that the caller sees. ProblemError 404: there is none. Other errors as `Service.report`."""
    try:
        report = await service.report(run_id)
    except RunNotFoundError:
        raise _not_found(run_id) from None
    if caller.session is not None and report["session"] != caller.session:
        raise _not_found(run_id)
    return report


async def sees(service: Service, caller: Caller, run_id: str) -> bool:
    """Whether the caller sees this run. A run that cannot be read is not seen."""
    try:
        await visible(service, caller, run_id)
    except (ProblemError, HoldfastError):
        return False
    return True


def check_own(caller: Caller, report: Mapping[str, Any]) -> None:
    """Let a caller with the role submit touch only the runs that it has posted. ProblemError 403."""
    if caller.role < Role.OPERATE and not caller.owns(report):
        raise role_needed(caller, Role.OPERATE, "a request to the run of another client")


async def bounded(service: Service, caller: Caller, submission: Submission) -> Submission:
    """The posted run in the bounds of its caller: in the caller's session, with the name of its token as a label.

    ProblemError: 403, another session or another token is named; 404, the caller does not see a named run.
    """
    if caller.token is None:
        return submission
    labels, session = submission.labels or {}, submission.session
    if labels.get(OWNER_LABEL, caller.token) != caller.token:
        raise ProblemError(FORBIDDEN, f"the label {OWNER_LABEL} is the name of your token", field="labels")
    if caller.session is not None:
        session = narrowed(caller, session)
        named = [] if submission.parent is None else [submission.parent]
        for run_id in (*named, *(submission.after or ())):
            await visible(service, caller, run_id)
    return msgspec.structs.replace(submission, labels={**labels, **owner_labels(caller)}, session=session)


def owner_labels(caller: Caller) -> dict[str, str]:
    """The labels that a run of this caller gets."""
    return {} if caller.token is None else {OWNER_LABEL: caller.token}


def narrowed(caller: Caller, session: str | None) -> str | None:
    """The session to look at, when the caller asks for this one (None: all). ProblemError 403: it is another one's."""
    if caller.session is not None and session not in (None, caller.session):
        detail = f"the token {caller.token!r} is for the session {caller.session!r}"
        raise ProblemError(FORBIDDEN, detail, field="session", remedy="leave the session out")
    return session if caller.session is None else caller.session


def key_of(caller: Caller, key: str | None) -> str | None:
    """The idempotency key in the room of the caller: sessions do not see each other's keys."""
    # No key of a client has a NUL in it.
    return key if key is None or caller.session is None else f"{caller.session}\0{key}"


def _not_found(run_id: str) -> ProblemError:
    return ProblemError(NO_RUN, "there is no such run", run_id=run_id, remedy="see GET /v1/runs")
