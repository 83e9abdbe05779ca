"""The client for asyncio and trio, `holdfast.AsyncClient`: the same methods as `Client`, awaited."""

from __future__ import annotations

from contextlib import aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any

import anyio

from ..values.errors import DaemonUnreachableError
from . import calls, transport
from .sse import EventParser, missed
from .transport import Patience, httpx2

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, AsyncIterator, Generator, Sequence
    from typing import Self, TypeVar, Unpack

    from ..values.fields import Duration, Text
    from .answers import Event, Page, Records, Report, Reports
    from .calls import ClientCall, EventFilters, RunFilters, Stream, Until
    from .posting import SubmitOptions

    T = TypeVar("T")


class AsyncClient(transport.DaemonConnection):
    """A client of one daemon whose methods never block. Close it, or use it in `async with`.

    Methods, arguments and errors are those of `Client`.
    """

    def _open(self) -> None:
        way = httpx2.AsyncHTTPTransport(**transport.way_of(self._endpoint))
        self._http = httpx2.AsyncClient(transport=way, **transport.settings(self._endpoint))

    async def submit(
        self, argv: Sequence[Text], *, idempotency_key: str | None = None, **options: Unpack[SubmitOptions]
    ) -> Report:
        """Queue a run, with the options of `holdfast.run`, and return its report as it is now."""
        return await self._ask(calls.submit(argv, options, idempotency_key))

    async def get(self, run_id: str) -> Report:
        """The report of a run, be it queued, live or over."""
        return await self._ask(calls.about(run_id))

    async def evidence(self, run_id: str) -> Records:
        """The facts recorded of a run so far, in order."""
        return (await self._ask(calls.about(run_id, "evidence")))["evidence"]  # type: ignore[no-any-return]

    async def list(self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[RunFilters]) -> Page:
        """A page of the runs, newest first."""
        return calls.page_of(await self._ask(calls.listing(filters, cursor, limit)))

    async def list_all(self, **filters: Unpack[RunFilters]) -> Reports:
        """All runs that match the filters, fetched page by page."""
        return await self._drive(calls.all_pages(filters))

    async def wait(
        self,
        run_id: str,
        *,
        timeout: Duration | None = None,  # noqa: ASYNC109 - the daemon keeps the time
        until: Until = "verdict",
        reconnect_s: float = 60.0,
    ) -> Report:
        """The report at the verdict, or as it is when the time is over, as from `Client.wait`."""
        await self.get(run_id)  # raises at once when there is no daemon now: only a restart is waited for
        patience = Patience(reconnect_s)
        patience.worked()
        return await self._drive(calls.waiting(run_id, until, timeout), patience)

    async def settled(self, run_id: str, *, timeout: Duration | None = None) -> Report:  # noqa: ASYNC109 - the same
        """The report when the run is settled, or as it is when the time is over."""
        return await self.wait(run_id, timeout=timeout, until="settled")

    async def cancel(
        self, run_id: str, *, reason: str = "", now: bool = False, grace: Duration | None = None
    ) -> Report:
        """Ask a run to end (`now`: by SIGKILL), and return the report once the request is on record.

        A `grace` may shorten the grace of the run, and never makes it longer.
        """
        return await self._ask(calls.cancel(run_id, reason, now=now, grace=grace))

    async def extend(self, run_id: str, seconds: Duration) -> Report:
        """Move the deadline of a run by so many seconds."""
        return await self._ask(calls.extend(run_id, seconds))

    async def signal(self, run_id: str, signal: str | int, *, tree: bool = False) -> Report:
        """Send one signal to the command, or to every process of its tree."""
        return await self._ask(calls.ask(run_id, "signal", {"signal": signal, "tree": tree}))

    async def resize(self, run_id: str, rows: int, columns: int) -> Report:
        """Set the size of the run's terminal."""
        return await self._ask(calls.ask(run_id, "resize", {"rows": rows, "columns": columns}))

    async def input(self, run_id: str, data: bytes, *, eof: bool = False) -> Report:
        """Write to the stdin of a run with `stdin="pipe"`; with `eof`, close it afterwards."""
        return await self._ask(calls.send_input(run_id, data, eof=eof))

    async def output(self, run_id: str, stream: Stream = "stdout", *, offset: int = 0, late: bool = False) -> bytes:
        """The output of a run so far, from this offset: `stdout`, `stderr` or `all` (both, in order)."""
        response = await self._send(calls.output(run_id, stream, offset, follow=False, late=late))
        transport.check(response)
        return response.content

    async def follow(
        self, run_id: str, stream: Stream = "stdout", *, offset: int = 0, late: bool = False, reconnect_s: float = 60.0
    ) -> AsyncGenerator[bytes, None]:
        """Yield the output as it is written, until the run is settled. A broken connection resumes at its offset."""
        patience = Patience(reconnect_s)
        while True:
            try:
                async with self._pieces(calls.output(run_id, stream, offset, follow=True, late=late)) as pieces:
                    patience.worked()
                    async for data in pieces:
                        patience.worked()
                        offset += len(data)
                        yield data
                if (rest := await self._rest(run_id, stream, offset, late=late)) is not None:
                    if rest:
                        yield rest
                    return
                await anyio.sleep(patience.pause(transport.stream_ended(self._endpoint)))
            except DaemonUnreachableError as error:
                await anyio.sleep(patience.pause(error))
            except httpx2.TransportError as error:
                await anyio.sleep(patience.pause(transport.failure(self._endpoint, error)))

    async def events(
        self, *, last_id: str | None = None, reconnect_s: float = 60.0, **wanted: Unpack[EventFilters]
    ) -> AsyncGenerator[Event, None]:
        """The daemon's events, as `Client.events` gives them."""
        patience = Patience(reconnect_s)
        while True:
            parser = EventParser(last_id)
            try:
                async with self._pieces(calls.events(wanted, last_id)) as pieces:
                    patience.worked()
                    async for data in pieces:
                        patience.worked()
                        for event in parser.feed(data):
                            yield event
                broken = transport.stream_ended(self._endpoint)
            except httpx2.TransportError as error:
                broken = transport.failure(self._endpoint, error)
            await anyio.sleep(max(patience.pause(broken), parser.retry_s or 0.0))
            last_id = parser.last_id
            if last_id is None:
                yield missed()

    async def sessions(self) -> Records:
        """Every session that has runs, or is closed."""
        return (await self._ask(calls.simple("sessions")))["sessions"]  # type: ignore[no-any-return]

    async def close_session(
        self, name: str, *, reason: str = "", now: bool = False, grace: Duration | None = None
    ) -> dict[str, Any]:
        """End the runs of a session and refuse later ones; the answer says which runs are confirmed gone.

        A `grace` may shorten the grace of the runs, and never makes it longer.
        """
        return await self._ask(calls.close_session(name, reason, now=now, grace=grace))

    async def open_session(self, name: str) -> dict[str, Any]:
        """Let a closed session take runs again. SessionClosedError: runs of it are still live."""
        return await self._ask(calls.open_session(name))

    async def doctor(self) -> dict[str, Any]:
        """The findings of the daemon's doctor."""
        return await self._ask(calls.simple("doctor"))

    async def hosts(self) -> dict[str, Any]:
        """The engine of the daemon, and the hosts on which it starts runs."""
        return await self._ask(calls.simple("hosts"))

    async def health(self) -> dict[str, Any]:
        """The daemon's status, version, PID, start and number of runs."""
        return await self._ask(calls.simple("health"))

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()
        self._endpoint.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _rest(self, run_id: str, stream: Stream, offset: int, *, late: bool) -> bytes | None:
        """The rest of the output after a stream has ended; None when the run goes on: the daemon ended the stream."""
        report = await self.get(run_id)
        if report["state"] != "settled" and report["status"] is not None:
            report = await self.settled(run_id)
        return await self.output(run_id, stream, offset=offset, late=late) if report["state"] == "settled" else None

    async def _drive(self, asking: Generator[ClientCall, dict[str, Any], T], patience: Patience | None = None) -> T:
        patience = patience or Patience(0.0)  # which raises at the first failure
        try:
            call = next(asking)
            while True:
                try:
                    answer = await self._ask(call)
                except DaemonUnreachableError as error:
                    await anyio.sleep(patience.pause(error))
                    continue
                patience.worked()
                call = asking.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    async def _ask(self, call: ClientCall) -> dict[str, Any]:
        return transport.answer_of(await self._send(call))  # type: ignore[no-any-return]

    async def _send(self, call: ClientCall) -> httpx2.Response:
        for attempt in range(2):
            try:
                return await self._http.send(transport.request_of(self._http, call))
            except httpx2.TransportError as error:
                if attempt == 0 and self._start is not None and isinstance(error, httpx2.ConnectError):
                    await anyio.to_thread.run_sync(self._start)
                elif not transport.may_repeat(call, error, attempt):
                    raise transport.failure(self._endpoint, error) from error
        raise AssertionError("the second attempt returns or raises")

    @asynccontextmanager
    async def _pieces(self, call: ClientCall) -> AsyncIterator[AsyncIterator[bytes]]:
        response = await self._http.send(transport.request_of(self._http, call), stream=True)
        try:
            if response.status_code >= 300:
                await response.aread()
                transport.check(response)
            async with aclosing(response.aiter_raw()) as pieces:
                yield pieces
        finally:
            await response.aclose()
