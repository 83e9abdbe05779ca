"""How both clients use the HTTP library: settings, requests, failures, and retries of a broken stream."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from ..state.directory import StateDirectory
from ..values.errors import DaemonError, DaemonUnreachableError, HoldfastError, SpecError
from .endpoint import ClientTls, Endpoint, unreachable, wants_daemon
from .problems import NOT_OURS, error_of

try:
    import httpx2 as httpx2  # the clients import it from here, so that one place reports its absence
except ModuleNotFoundError as error:  # pragma: no cover - the tests have it
    raise HoldfastError("holdfast.Client needs the package httpx2", remedy="pip install 'holdfast[client]'") from error

if TYPE_CHECKING:
    from collections.abc import Callable

    from .calls import ClientCall

CONNECT_S = 5.0
ANSWER_S = 30.0
_FIRST_PAUSE_S = 0.1
_LONGEST_PAUSE_S = 5.0


def starter(url: str | None, state_dir: str | None, start: bool | None) -> Callable[[], object] | None:
    """The function that starts a daemon; None when the caller wants no start. Makes the state directory if needed.

    SpecError: a daemon at a URL cannot be started from here.
    """
    if url is not None and start:
        raise SpecError("a daemon at a URL cannot be started from here", field="start", remedy="leave one of them out")
    if url is not None or not wants_daemon(start):
        return None
    from .daemon_start import ensure_daemon

    path = StateDirectory.open(state_dir).path
    return lambda: ensure_daemon(path)


class DaemonConnection:
    """What both clients are made of: which daemon they talk to, and how it is started when there is none."""

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        state_dir: str | None = None,
        start: bool | None = None,
        ca: str | None = None,
        cert: str | tuple[str, str] | None = None,
    ) -> None:
        """With `start`, the daemon of the state directory is started when there is none (None: by HOLDFAST_START).

        For an https:// URL, `ca` is the file of authorities to trust (None: SSL_CERT_FILE, or those of the host), and
        `cert` the client's own certificate with its key: one file, or a file for each.
        """
        self._start = starter(url, state_dir, start)
        self._endpoint = Endpoint.of(url, token, state_dir, ClientTls(ca, cert))
        self._open()

    def _open(self) -> None:
        raise NotImplementedError


def way_of(endpoint: Endpoint) -> dict[str, Any]:
    """How the HTTP library reaches the daemon: its socket, or TCP with our TLS context."""
    return {"uds": endpoint.socket} if endpoint.tls is None else {"verify": endpoint.tls}


def settings(endpoint: Endpoint) -> dict[str, Any]:
    """The settings of both clients. No proxy: clients talk to a daemon directly, whatever the environment says."""
    return {"base_url": endpoint.base_url, "headers": endpoint.headers(), "trust_env": False}


def request_of(http: httpx2.Client | httpx2.AsyncClient, call: ClientCall) -> httpx2.Request:
    """The request of a call."""
    read_s = None if call.patience_s is None else call.patience_s + ANSWER_S
    return http.build_request(
        call.method,
        call.path,
        params=dict(call.params),
        json=call.json,
        content=call.content,
        headers=dict(call.headers),
        timeout=httpx2.Timeout(ANSWER_S, connect=CONNECT_S, read=read_s),
    )


def answer_of(response: httpx2.Response) -> Any:
    """The JSON of a complete answer. Raises the error that the answer stands for."""
    check(response)
    try:
        return response.json()
    except ValueError:
        raise DaemonError("the answer is not JSON", status=response.status_code, remedy=NOT_OURS) from None


def check(response: httpx2.Response) -> None:
    """Raise the error that a complete answer stands for; return when the answer is no error."""
    if response.status_code >= 300:
        raise error_of(response.status_code, response.content, response.headers)


def failure(endpoint: Endpoint, error: httpx2.TransportError) -> DaemonUnreachableError:
    """The error for a broken connection."""
    why = "it takes too long" if isinstance(error, httpx2.TimeoutException) else str(error) or type(error).__name__
    return unreachable(endpoint.shown, why)


def stream_ended(endpoint: Endpoint) -> DaemonUnreachableError:
    """The error for a stream that the daemon, or something on the way to it, closed without a failure."""
    return unreachable(endpoint.shown, "the stream has ended")


def may_repeat(call: ClientCall, error: httpx2.TransportError, attempt: int) -> bool:
    """Whether to send a failed call once more: if that does no harm, and an idle connection may have been closed."""
    return attempt == 0 and call.repeats and not isinstance(error, (httpx2.TimeoutException, httpx2.ConnectError))


class Patience:
    """How long to reconnect a broken stream, with growing pauses. The first connection gets only one attempt."""

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self._ever = False
        self._since: float | None = None
        self._pause_s = _FIRST_PAUSE_S

    def worked(self) -> None:
        """Note that the stream is open, or that something arrived on it."""
        self._ever, self._since, self._pause_s = True, None, _FIRST_PAUSE_S

    def pause(self, error: HoldfastError) -> float:
        """How long to wait before the next attempt. Raises `error` when there is no next attempt."""
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if not self._ever or now - self._since >= self._total_s:
            raise error
        self._pause_s = min(self._pause_s * 2, _LONGEST_PAUSE_S)
        return self._pause_s / 2
