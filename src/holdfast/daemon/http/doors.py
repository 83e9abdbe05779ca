"""Doors of the agents: other protocols on the daemon's listeners, and a refusal in the words of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...web.problems import respond
from .openai import routes as openai
from .openai.errors import respond_in_words

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.routing import BaseRoute
    from starlette.types import Scope

    from ...web.problems import ProblemError
    from ...web.request_body import BodyBounds
    from ..agents.agent_runs import AgentRuns


def doors_of(agents: AgentRuns, bounds: BodyBounds) -> list[BaseRoute]:
    """The routes of every door."""
    return openai.routes(agents, bounds)


def refuse(scope: Scope, error: ProblemError) -> Response:
    """The answer to a request that the walls refuse."""
    return respond_in_words(error) if scope["path"].startswith(f"{openai.PATH}/") else respond(error)
