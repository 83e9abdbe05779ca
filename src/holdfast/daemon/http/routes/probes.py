"""Probes for load balancers and container managers: `GET /livez`, `GET /readyz`, for everybody and without detail.

A stranger learns one bit. `livez` fails when the event loop does not turn any more. `readyz` fails while the daemon
takes or starts no new run. A full TCP address does not count: otherwise strangers could take the daemon out of service.
"""

from __future__ import annotations

from starlette.responses import Response

from ....web.problems import NOT_READY, ProblemError, retry_after
from ..wire.operation import Operation, OperationCall


async def livez(_call: OperationCall) -> Response:
    """Answer: the daemon lives."""
    return _ok()


async def readyz(call: OperationCall) -> Response:
    """Answer when a new run would be taken and started. ProblemError 503: it would not."""
    if not call.service.is_ready():
        raise ProblemError(NOT_READY, headers=retry_after(NOT_READY))
    return _ok()


def _ok() -> Response:
    return Response("ok\n", headers={"Cache-Control": "no-store"}, media_type="text/plain")


OPERATIONS = (
    Operation("GET", "/livez", livez, "Whether the daemon lives.", gives=("text/plain",)),
    Operation("GET", "/readyz", readyz, "Whether the daemon starts new runs.", gives=("text/plain",), errors=(503,)),
)
PUBLIC = frozenset(operation.path for operation in OPERATIONS)
