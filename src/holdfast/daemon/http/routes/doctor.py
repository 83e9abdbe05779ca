"""The doctor over HTTP: findings, the repairs that `holdfast doctor --reap` would make, and making chosen ones.

`GET /v1/doctor/repairs` is the dry run: it lists the repairs. The name of a repair is a digest of everything it is
about. `POST /v1/doctor/repairs` names the repairs to make; a name that the doctor does not find any more is not
repaired. So a client can only reap what it has seen.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Doctor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

    from ....doctor.finding import Diagnosis, PlannedRepair

_MOST = 1000


class Planned(msgspec.Struct):
    """One repair that can be made; `repair` is its name."""

    repair: str
    kind: str
    what: str
    run_id: str | None
    pids: list[int]
    path: str | None


class RepairPlan(msgspec.Struct):
    """The dry run: every repair that can be made."""

    repairs: list[Planned]


class Reap(msgspec.Struct, forbid_unknown_fields=True):
    """The repairs to make, by their names in the dry run."""

    repairs: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(min_length=1, max_length=_MOST)]


class Done(msgspec.Struct):
    """The result of one repair; `confirmed` only when its effect was observed."""

    repair: str
    what: str
    run_id: str | None
    confirmed: bool
    result: str


class Reaped(msgspec.Struct):
    """The repairs that were made, and the names that were not found any more."""

    done: list[Done]
    unknown: list[str]


def name_of(repair: Mapping[str, Any]) -> str:
    """The name of a repair: a digest that changes when anything the repair is about changes."""
    return hashlib.sha256(msgspec.json.encode(sorted(repair.items()))).hexdigest()[:24]


async def examine(call: OperationCall) -> Response:
    """Examine the host and the state directory."""
    return answer(msgspec.convert(await call.service.doctor(), Doctor))


async def plan(call: OperationCall) -> Response:
    """List the repairs without making any."""
    found = _by_name(await call.service.examine())
    return answer(
        RepairPlan([msgspec.convert({"repair": name, **one.as_dict()}, Planned) for name, one in found.items()])
    )


async def reap(call: OperationCall) -> Response:
    """Make the named repairs."""
    asked: Reap = call.body
    names = dict.fromkeys(asked.repairs)
    found = _by_name(await call.service.examine())
    wanted = {name: found[name] for name in names if name in found}
    done = await call.service.repair([*wanted.values()]) if wanted else []
    told = [
        Done(name, one.repair.what, one.repair.run_id, one.confirmed, one.what)
        for name, one in zip(wanted, done, strict=True)
    ]
    return answer(Reaped(told, [name for name in names if name not in found]))


def _by_name(found: Diagnosis) -> dict[str, PlannedRepair]:
    return {name_of(one.as_dict()): one for one in found.repairs}


OPERATIONS = (
    Operation("GET", "/v1/doctor", examine, "Examine the host and the state directory.", Doctor, errors=(503,)),
    Operation("GET", "/v1/doctor/repairs", plan, "List the repairs: the dry run.", RepairPlan, errors=(503,)),
    Operation("POST", "/v1/doctor/repairs", reap, "Make listed repairs.", Reaped, body=Reap, errors=(503,)),
)
