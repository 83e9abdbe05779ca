"""About the daemon itself: health, doctor, metrics."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Health


async def health(call: OperationCall) -> Response:
    """Always answered while the daemon lives; draining is a status of its own."""
    return answer(msgspec.convert(call.service.health(), Health))


async def metrics(call: OperationCall) -> Response:
    """For Prometheus."""
    from prometheus_client import CONTENT_TYPE_LATEST

    from ...service.metrics import metrics as render

    return Response(render(call.service), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE_LATEST)


OPERATIONS = (
    Operation("GET", "/v1/health", health, "How the daemon is.", Health),
    Operation("GET", "/metrics", metrics, "Numbers for Prometheus.", gives=("text/plain",)),
)
