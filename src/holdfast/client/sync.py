"""The blocking client of a daemon, `holdfast.Client`. Threads may share one."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..values.errors import DaemonUnreachableError
from . import calls, transport
from .sse import EventParser, missed
from .transport import Patience, httpx2

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from typing import Self, TypeVar, Unpack

    from ..values.fields import Duration, Text
    from .answers import Event, Page, Records, Report, Reports
    from .calls import ClientCall, EventFilters, RunFilters, Stream, Until
    from .posting import SubmitOptions

    T = TypeVar("T")


class Client(transport.DaemonConnection):
    """A client of one daemon: of a state directory (the default one), or of a URL with its token.

    Every method raises the error that the library raises for the same reason (SpecError, RunNotFoundError,
    RequestError, ...), and DaemonUnreachableError, UnauthorizedError, DrainingError, QueueFullError or
    IdempotencyConflictError.
    """

    def _open(self) -> None:
        way = httpx2.HTTPTransport(**transport.way_of(self._endpoint))
        self._http = httpx2.Client(transport=way, **transport.settings(self._endpoint))

    def submit(
        self, argv: Sequence[Text], *, idempotency_key: str | None = None, **options: Unpack[SubmitOptions]
    ) -> Report:
        """Queue a run, with the options of `holdfast.run`, and return its report as it is now."""
        return self._ask(calls.submit(argv, options, idempotency_key))

    def get(self, run_id: str) -> Report:
        """The report of a run, be it queued, live or over."""
        return self._ask(calls.about(run_id))

    def evidence(self, run_id: str) -> Records:
        """The facts recorded of a run so far, in order."""
        return self._ask(calls.about(run_id, "evidence"))["evidence"]  # type: ignore[no-any-return]

    def list(self, *, cursor: str | None = None, limit: int | None = None, **filters: Unpack[RunFilters]) -> Page:
        """A page of the runs, newest first."""
        return calls.page_of(self._ask(calls.listing(filters, cursor, limit)))

    def list_all(self, **filters: Unpack[RunFilters]) -> Reports:
        """All runs that match the filters, fetched page by page."""
        return self._drive(calls.all_pages(filters))

    def wait(
        self, run_id: str, *, timeout: Duration | None = None, until: Until = "verdict", reconnect_s: float = 60.0
    ) -> Report:
        """The report at the verdict; or as it is when the time is over, with a `status` of None.

        When the daemon restarts, this waits for it to come back, for `reconnect_s` at most.
        """
        self.get(run_id)  # raises at once when there is no daemon now: only a restart is waited for
        patience = Patience(reconnect_s)
        patience.worked()
        return self._drive(calls.waiting(run_id, until, timeout), patience)

    def settled(self, run_id: str, *, timeout: Duration | None = None) -> Report:
        """The report when the run is settled, or as it is when the time is over."""
        return self.wait(run_id, timeout=timeout, until="settled")

    def cancel(self, run_id: str, *, reason: str = "", now: bool = False, grace: Duration | None = None) -> Report:
        """Ask a run to end (`now`: by SIGKILL), and return the report once the request is on record.

        A `grace` may shorten the grace of the run, and never makes it longer.
        """
        return self._ask(calls.cancel(run_id, reason, now=now, grace=grace))

    def extend(self, run_id: str, seconds: Duration) -> Report:
        """Move the deadline of a run by so many seconds."""
        return self._ask(calls.extend(run_id, seconds))

    def signal(self, run_id: str, signal: str | int, *, tree: bool = False) -> Report:
        """Send one signal to the command, or to every process of its tree."""
        return self._ask(calls.ask(run_id, "signal", {"signal": signal, "tree": tree}))

    def resize(self, run_id: str, rows: int, columns: int) -> Report:
        """Set the size of the run's terminal."""
        return self._ask(calls.ask(run_id, "resize", {"rows": rows, "columns": columns}))

    def input(self, run_id: str, data: bytes, *, eof: bool = False) -> Report:
        """Write to the stdin of a run with `stdin="pipe"`; with `eof`, close it afterwards."""
        return self._ask(calls.send_input(run_id, data, eof=eof))

    def output(self, run_id: str, stream: Stream = "stdout", *, offset: int = 0, late: bool = False) -> bytes:
        """The output of a run so far, from this offset: `stdout`, `stderr` or `all` (both, in order)."""
        response = self._send(calls.output(run_id, stream, offset, follow=False, late=late))
        transport.check(response)
        return response.content

    def follow(
        self, run_id: str, stream: Stream = "stdout", *, offset: int = 0, late: bool = False, reconnect_s: float = 60.0
    ) -> Generator[bytes, None, None]:
        """Yield the output as it is written, until the run is settled. A broken connection resumes at its offset."""
        patience = Patience(reconnect_s)
        while True:
            try:
                with self._pieces(calls.output(run_id, stream, offset, follow=True, late=late)) as pieces:
                    patience.worked()
                    for data in pieces:
                        patience.worked()
                        offset += len(data)
                        yield data
                if (rest := self._rest(run_id, stream, offset, late=late)) is not None:
                    if rest:
                        yield rest
                    return
                time.sleep(patience.pause(transport.stream_ended(self._endpoint)))
            except DaemonUnreachableError as error:
                time.sleep(patience.pause(error))
            except httpx2.TransportError as error:
                time.sleep(patience.pause(transport.failure(self._endpoint, error)))

    def events(
        self, *, last_id: str | None = None, reconnect_s: float = 60.0, **wanted: Unpack[EventFilters]
    ) -> Generator[Event, None, None]:
        """Yield the daemon's events, without end: after the event `last_id`, or from now on.

        After a broken connection the stream goes on behind the last event. DaemonUnreachableError: no connection for
        `reconnect_s`. A `resync` event means that events are missing: list the runs again.
        """
        patience = Patience(reconnect_s)
        while True:
            parser = EventParser(last_id)
            try:
                with self._pieces(calls.events(wanted, last_id)) as pieces:
                    patience.worked()
                    for data in pieces:
                        patience.worked()
                        yield from parser.feed(data)
                broken = transport.stream_ended(self._endpoint)
            except httpx2.TransportError as error:
                broken = transport.failure(self._endpoint, error)
            time.sleep(max(patience.pause(broken), parser.retry_s or 0.0))
            last_id = parser.last_id
            if last_id is None:
                yield missed()

    def sessions(self) -> Records:
        """Every session that has runs, or is closed."""
        return self._ask(calls.simple("sessions"))["sessions"]  # type: ignore[no-any-return]

    def close_session(
        self, name: str, *, reason: str = "", now: bool = False, grace: Duration | None = None
    ) -> dict[str, Any]:
        """End the runs of a session and refuse later ones; the answer says which runs are confirmed gone.

        A `grace` may shorten the grace of the runs, and never makes it longer.
        """
        return self._ask(calls.close_session(name, reason, now=now, grace=grace))

    def open_session(self, name: str) -> dict[str, Any]:
        """Let a closed session take runs again. SessionClosedError: runs of it are still live."""
        return self._ask(calls.open_session(name))

    def doctor(self) -> dict[str, Any]:
        """The findings of the daemon's doctor."""
        return self._ask(calls.simple("doctor"))

    def hosts(self) -> dict[str, Any]:
        """The engine of the daemon, and the hosts on which it starts runs."""
        return self._ask(calls.simple("hosts"))

    def health(self) -> dict[str, Any]:
        """The daemon's status, version, PID, start and number of runs."""
        return self._ask(calls.simple("health"))

    def close(self) -> None:
        """Close the connections."""
        self._http.close()
        self._endpoint.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _rest(self, run_id: str, stream: Stream, offset: int, *, late: bool) -> bytes | None:
        """The rest of the output after a stream has ended; None when the run goes on: the daemon ended the stream."""
        report = self.get(run_id)
        if report["state"] != "settled" and report["status"] is not None:
            report = self.settled(run_id)
        return self.output(run_id, stream, offset=offset, late=late) if report["state"] == "settled" else None

    def _drive(self, asking: Generator[ClientCall, dict[str, Any], T], patience: Patience | None = None) -> T:
        patience = patience or Patience(0.0)  # which raises at the first failure
        try:
            call = next(asking)
            while True:
                try:
                    answer = self._ask(call)
                except DaemonUnreachableError as error:
                    time.sleep(patience.pause(error))
                    continue
                patience.worked()
                call = asking.send(answer)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]

    def _ask(self, call: ClientCall) -> dict[str, Any]:
        return transport.answer_of(self._send(call))  # type: ignore[no-any-return]

    def _send(self, call: ClientCall) -> httpx2.Response:
        for attempt in range(2):
            try:
                return self._http.send(transport.request_of(self._http, call))
            except httpx2.TransportError as error:
                if attempt == 0 and self._start is not None and isinstance(error, httpx2.ConnectError):
                    self._start()
                elif not transport.may_repeat(call, error, attempt):
                    raise transport.failure(self._endpoint, error) from error
        raise AssertionError("the second attempt returns or raises")

    @contextmanager
    def _pieces(self, call: ClientCall) -> Iterator[Iterator[bytes]]:
        response = self._http.send(transport.request_of(self._http, call), stream=True)
        try:
            if response.status_code >= 300:
                response.read()
                transport.check(response)
            yield response.iter_raw()
        finally:
            response.close()
