"""What `holdfast doctor --reap` does, over HTTP: only what was looked at before, repair by repair.

`GET /v1/doctor` is the dry run: it lists the repairs. Each has a digest of all that it is about; a reap names the
digests it wants, and what is not found (any more) is not done. So nobody reaps what they have not seen.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Doctor

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.responses import Response

_MOST = 1000


class Planned(msgspec.Struct):
    """One thing that can be done; `repair` is what names it."""

    repair: str
    kind: str
    what: str
    run_id: str | None
    pids: list[int]
    path: str | None


class Plan(msgspec.Struct):
    """The dry run."""

    repairs: list[Planned]


class Reap(msgspec.Struct, forbid_unknown_fields=True):
    """Which ones to do, by the names the plan gave them."""

    repairs: Annotated[list[Annotated[str, Meta(max_length=64)]], Meta(min_length=1, max_length=_MOST)]


class Done(msgspec.Struct):
    """What became of it: `confirmed` only when it was seen to be done."""

    repair: str
    what: str
    run_id: str | None
    confirmed: bool
    result: str


class Reaped(msgspec.Struct):
    """What was done, and the names that are not known (any more)."""

    done: list[Done]
    unknown: list[str]


def name_of(repair: Mapping[str, Any]) -> str:
    """Its digest: the same as long as it is about the same."""
    return hashlib.sha256(msgspec.json.encode(sorted(repair.items()))).hexdigest()[:24]


async def examine(call: OperationCall) -> Response:
    """What is wrong here."""
    return answer(msgspec.convert(await call.service.doctor(), Doctor))


async def plan(call: OperationCall) -> Response:
    """What would be done."""
    found = await asyncio.to_thread(_examine, call.service.state.path)
    return answer(Plan([msgspec.convert({"repair": name, **one.as_dict()}, Planned) for name, one in found.items()]))


async def reap(call: OperationCall) -> Response:
    """Do these."""
    asked: Reap = call.body
    return answer(await asyncio.to_thread(_carry_out, call.service.state, list(dict.fromkeys(asked.repairs))))


def _examine(path: str) -> dict[str, Any]:
    from ....doctor import examine

    return {name_of(one.as_dict()): one for one in examine(path, trial=False).repairs}


def _carry_out(state: Any, names: list[str]) -> Reaped:
    from ....doctor import carry_out

    found = _examine(state.path)
    wanted = {name: found[name] for name in names if name in found}
    done = carry_out(state, wanted.values()) if wanted else []
    told = [
        Done(name, one.repair.what, one.repair.run_id, one.confirmed, one.what)
        for name, one in zip(wanted, done, strict=True)
    ]
    return Reaped(told, [name for name in names if name not in found])


OPERATIONS = (
    Operation("GET", "/v1/doctor", examine, "Look for everything that is wrong.", Doctor, errors=(503,)),
    Operation("GET", "/v1/doctor/repairs", plan, "What reaping would do: the dry run.", Plan, errors=(503,)),
    Operation("POST", "/v1/doctor/repairs", reap, "Do what a dry run has named.", Reaped, body=Reap, errors=(503,)),
)
