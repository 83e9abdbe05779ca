"""Publish an event and learn its id when it is stored, or the store's error."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from holdfast.daemon.events.event_log import EventLog


def published(log: EventLog, kind: str, run_id: str | None, data: Mapping[str, Any]) -> asyncio.Future[int]:
    """Publish it; the future has the event's id after the log was told of the commit."""
    answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    store = log._store  # noqa: SLF001
    post = store.post

    def observed(action: Callable[..., Any], done: Callable[..., None]) -> None:
        def told(written: Any, error: Exception | None) -> None:
            done(written, error)
            if error is None:
                answer.set_result(written[0])
            else:
                answer.set_exception(error)

        post(action, told)

    with patch.object(store, "post", observed):
        log.publish(kind, run_id, data)
    return answer
