"""The settings of the daemon over HTTP: `GET /v1/config`, which `holdfast config` asks."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from ....config import Effective
from ....config.shown import pending_changes, shown_settings
from ....web.problems import UNAVAILABLE, ProblemError
from ..wire.operation import Operation, OperationCall, answer
from ..wire.types import Time

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.responses import Response


class SettingInForce(msgspec.Struct):
    """One setting. `text`: the value for people; `where`: the flag, the variable, or the line of the file."""

    name: str
    value: Any
    text: str
    source: Literal["flag", "variable", "file", "default"]
    where: str | None
    flag: str | None
    variable: str | None
    reloads: bool


class PendingSettings(msgspec.Struct):
    """What SIGHUP would do now: settings by their path in the file, or the mistakes that would prevent it."""

    changed: list[str]
    needs_restart: Annotated[list[str], Meta(description="changed, and in force only after a restart")]
    mistakes: list[str]


class SettingsInForce(msgspec.Struct):
    """The settings of the daemon by their path in the file, and the file that was read."""

    pid: int
    started_at: Time
    file: str | None
    settings: dict[str, SettingInForce]
    pending: PendingSettings


async def in_force(call: OperationCall) -> Response:
    """Show every setting that is in force, and what a reload would change."""
    settings: Callable[[], Effective] | None = call.request.app.state.effective
    if settings is None:
        raise ProblemError(UNAVAILABLE, "this server has no settings")
    found = settings()
    pending = await asyncio.to_thread(pending_changes, found)
    started_at = call.service.health()["started_at"]
    shown = msgspec.convert(shown_settings(found), dict[str, SettingInForce])
    return answer(SettingsInForce(os.getpid(), started_at, found.file, shown, PendingSettings(*map(list, pending))))


OPERATIONS = (
    Operation("GET", "/v1/config", in_force, "The settings in force, and where each comes from.", SettingsInForce),
)
