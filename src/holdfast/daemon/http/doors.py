"""Doors of the agents: the routes of other protocols, and refusals in the form of each protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...web.problems import respond
from .a2a import errors as a2a_errors
from .a2a import routes as a2a
from .openai import errors as openai_errors
from .openai import routes as openai

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import Scope

    from ...web.problems import ProblemError
    from ...web.request_body import BodyBounds
    from ..agents.agent_runs import AgentRuns


def doors_of(agents: AgentRuns, bounds: BodyBounds) -> list[BaseRoute]:
    """The routes of every door."""
    return [*openai.routes(agents, bounds), *a2a.routes(agents, bounds)]


def refuse(scope: Scope, error: ProblemError) -> Response:
    """The answer to a request that the access checks refuse, in the form of its door, or as problem JSON elsewhere."""
    if scope["path"].startswith(f"{openai.PATH}/"):
        return openai_errors.respond_in_words(error)
    if scope["path"].startswith(f"{a2a.PATH}/"):
        return a2a_errors.respond_in_words(error)
    return respond(error)
