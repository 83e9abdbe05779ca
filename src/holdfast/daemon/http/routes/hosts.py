"""The hosts over HTTP: on which hosts the daemon starts runs, their load, their leases, and what is where."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import msgspec
from msgspec import Meta

from ..wire.operation import Operation, OperationCall, answer

if TYPE_CHECKING:
    from starlette.responses import Response


class Host(msgspec.Struct):
    """One host; null where nothing is known. `slots`: how many runs it takes at once; `live`: how many it has."""

    host: str
    node_id: str | None
    address: str | None
    state: Literal["alive", "unreachable"]
    problem: str | None
    version: Annotated[str | None, Meta(description="of Holdfast on that host")]
    resources: dict[str, float]
    labels: dict[str, str]
    slots: int | None
    live: int | None
    lease_s: Annotated[float | None, Meta(description="how long it goes on without contact with the cluster")]
    lease_left_s: float | None
    epoch: Annotated[int | None, Meta(description="how often it was declared lost")]
    runs: Annotated[list[str], Meta(description="live runs of this daemon on that host")]


class HostList(msgspec.Struct):
    """Every host on which this daemon can start runs."""

    engine: Literal["local", "ray"]
    hosts: list[Host]


async def listing(call: OperationCall) -> Response:
    """List the hosts."""
    return answer(msgspec.convert(await call.service.hosts(), HostList))


OPERATIONS = (
    Operation(
        "GET", "/v1/hosts", listing, "The hosts, their load and leases, and what is where.", HostList, errors=(503,)
    ),
)
