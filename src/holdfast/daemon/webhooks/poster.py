"""One try to post something to a receiver: it took it, or why not.

The receiver is somebody else's program, named by whoever may post runs. So: http and https only, no redirect is
followed, no proxy or password file of the environment is used, one time limit for the whole try, and nothing of the
answer but its status is read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...values.errors import SpecError

if TYPE_CHECKING:
    from collections.abc import Mapping

    import httpx2

_LONGEST_URL = 2048
_PORTS = {"http": 80, "https": 443}


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL that may be posted to; SpecError: it may not. The rest of it may be secret."""
    wrong = None
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _refused("cannot be understood") from None
    if len(url) > _LONGEST_URL:
        wrong = f"is longer than {_LONGEST_URL} characters"
    elif parts.scheme not in _PORTS:
        wrong = "must begin with http:// or https://"
    elif not host:
        wrong = "names no host"
    elif port == 0:
        wrong = "has port 0"
    elif parts.username is not None or parts.password is not None:
        wrong = "must not have a user or password in it: receivers check the signature"
    elif not url.isascii() or any(ord(character) <= 0x20 or ord(character) == 0x7F for character in url):
        wrong = "has characters that must be percent-encoded"
    if wrong:
        raise _refused(wrong)
    named = f"[{host}]" if ":" in (host or "") else host
    return f"{parts.scheme}://{named}:{port or _PORTS[parts.scheme]}"


def _refused(why: str) -> SpecError:
    return SpecError(f"the URL of on_verdict {why}", field="on_verdict.url", remedy="give one that can be posted to")


class Poster:
    """Posts with one client, made when it is first needed."""

    def __init__(self, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._client: httpx2.AsyncClient | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """None: the receiver answered 2xx. Otherwise why this try failed, without the URL."""
        client = self._client or self._connect()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                client.stream("POST", url, content=body, headers=dict(headers)) as response,
            ):
                return _verdict_on(response.status_code)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - a receiver, its certificate and its name can fail in any way
            return f"cannot be reached: {type(error).__name__}"

    def _connect(self) -> httpx2.AsyncClient:
        import httpx2  # most daemons post nothing, and it takes a while to import

        self._client = httpx2.AsyncClient(
            follow_redirects=False, trust_env=False, timeout=self._timeout_s, headers={"user-agent": "holdfast"}
        )
        return self._client

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None:
            await self._client.aclose()


def _verdict_on(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    return f"answered {status}" + ("; redirects are not followed" if 300 <= status < 400 else "")
