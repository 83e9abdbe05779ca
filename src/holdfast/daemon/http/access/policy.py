"""The policy at the door of HTTP: a posted run and a later deadline, judged by the rules for the caller's role."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import msgspec

from ....access.caller import ABOUT, caller_of
from ....access.policy_check import check_run, check_timeout
from ....values.errors import PolicyError
from ....web.request_connection import PEER_UID
from ...queue.start_policy import Submitter, posted_run

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

    from ....config import Config
    from ...queue.submission import Submission


async def allowed(request: Request, submission: Submission) -> Submission:
    """The posted run with the highest limits where it named none. PolicyError: a rule refuses it. SpecError: ladder."""
    config: Config = request.app.state.settings()
    if config.policy.is_empty:
        return submission
    submitter = submitter_of(request)
    try:
        posted = posted_run(submission, config, submitter.uid)
        added = await asyncio.to_thread(check_run, config.policy.rules(submitter.role), posted)
    except PolicyError as error:
        request.scope["state"][ABOUT] = error.rule  # for the audit log
        raise
    return msgspec.structs.replace(submission, **added) if added else submission


def check_extension(request: Request, spec: Mapping[str, Any], report: Mapping[str, Any], seconds: float) -> None:
    """Check the timeout that a run has after an extension. PolicyError."""
    config: Config = request.app.state.settings()
    rules = config.policy.rules(submitter_of(request).role)
    moved = [fact["limit_ns"] / 1e9 for fact in report["evidence"] if fact["fact"] == "extended"]
    timeout_s = moved[-1] if moved else spec.get("timeout_s")
    check_timeout(rules, None if timeout_s is None else timeout_s + seconds)


def submitter_of(request: Request) -> Submitter:
    """The client of this request, as the policy sees it."""
    return Submitter(caller_of(request.scope).role.word, request.scope["state"].get(PEER_UID))
