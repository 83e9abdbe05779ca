"""Health and metrics of the daemon: `GET /v1/health`, `GET /metrics`."""

from __future__ import annotations

import msgspec
from starlette.responses import Response

from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Health


async def health(call: OperationCall) -> Response:
    """Answer while the daemon lives, also while it drains. A token of one session gets the counts of its session."""
    return answer(msgspec.convert(call.service.health(call.caller.session), Health))


async def metrics(call: OperationCall) -> Response:
    """Metrics in the format of Prometheus."""
    from prometheus_client import CONTENT_TYPE_LATEST

    return Response(call.service.metrics(), headers={"Cache-Control": "no-store"}, media_type=CONTENT_TYPE_LATEST)


OPERATIONS = (
    Operation("GET", "/v1/health", health, "The state of the daemon.", Health),
    Operation("GET", "/metrics", metrics, "Metrics in the format of Prometheus.", gives=("text/plain",)),
)
