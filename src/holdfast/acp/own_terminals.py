"""The terminals of Holdfast behind an ACP proxy: answers the agent's `terminal/*` requests in place of the editor.

The library of the protocol is imported when the first editor without terminals appears: that takes longer than
everything else the proxy does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio

from ..values.errors import HoldfastError
from . import messages

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..values.options import SpecOptions
    from .messages import AcpMessage

INTERNAL_ERROR = -32603


class OwnTerminals:
    """Answers the agent's `terminal/*` requests. The caller runs `serve` in a task that outlives the requests."""

    def __init__(self, state_dir: str | None, options: SpecOptions, send: Callable[[bytes], None]) -> None:
        self._state_dir = state_dir
        self._options = options
        self._send = send
        self._asked, self._requests = anyio.create_memory_object_stream["AcpMessage"](10_000)

    def ask(self, request: AcpMessage) -> None:
        """Take a `terminal/*` request; its answer goes to the agent. A full queue is an error for the agent."""
        assert request.key is not None
        try:
            self._asked.send_nowait(request)
        except anyio.WouldBlock:
            error = {"code": INTERNAL_ERROR, "message": "too many terminal requests wait for an answer"}
            self._send(messages.answer(request.key, error=error))

    def close(self) -> None:
        """End every terminal, and then `serve`."""
        self._asked.close()

    async def serve(self) -> None:
        """Serve requests until `close`; then end the terminals that are left."""
        with self._requests:
            async for first in self._requests:
                try:
                    await self._serve_from(first)
                except HoldfastError as error:  # the state directory cannot be used: the next request tries again
                    assert first.key is not None
                    self._send(messages.answer(first.key, error={"code": INTERNAL_ERROR, "message": str(error)}))

    async def _serve_from(self, first: AcpMessage) -> None:
        from acp.client.router import build_client_router

        from .terminals import Terminals

        async with Terminals(state_dir=self._state_dir, **self._options) as terminals:
            router = build_client_router(terminals)  # type: ignore[arg-type]
            async with anyio.create_task_group() as calls:
                calls.start_soon(self._answer, router, first)
                async for request in self._requests:
                    calls.start_soon(self._answer, router, request)
                calls.cancel_scope.cancel()  # the agent is gone: nobody waits for an answer

    async def _answer(self, router: Any, request: AcpMessage) -> None:
        from acp.exceptions import RequestError
        from pydantic import BaseModel, ValidationError

        assert request.key is not None
        try:
            result = await router(request.method, request.params, False)
        except RequestError as error:
            self._send(messages.answer(request.key, error=error.to_error_obj()))
        except ValidationError as error:
            problem = RequestError.invalid_params({"errors": error.errors(include_url=False, include_input=False)})
            self._send(messages.answer(request.key, error=problem.to_error_obj()))
        except HoldfastError as error:
            self._send(messages.answer(request.key, error={"code": INTERNAL_ERROR, "message": str(error)}))
        else:
            if isinstance(result, BaseModel):
                result = result.model_dump(mode="json", by_alias=True, exclude_none=True)
            self._send(messages.answer(request.key, result=result))
