"""One try to post a delivery to its receiver: accepted, or the reason of the failure.

The receiver is a foreign program, chosen by a client that may post runs. So the poster uses http and https only,
follows no redirect, uses no proxy or password file of the environment, has one time limit for the whole try, and reads
nothing of the answer but its status.
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
    """Scheme, host and port of a receiver's URL; the rest may be secret. SpecError: the URL is not allowed."""
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
    """Posts deliveries with one HTTP client, which is made at the first use."""

    def __init__(self, timeout_s: float = 10.0) -> None:
        self._timeout_s = timeout_s
        self._client: httpx2.AsyncClient | None = None

    async def post(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """Post a delivery once. Returns None when the receiver answered 2xx, else why it failed, without the URL."""
        client = self._client or self._connect()
        try:
            async with (
                asyncio.timeout(self._timeout_s),
                client.stream("POST", url, content=body, headers=dict(headers)) as response,
            ):
                return _verdict_on(response.status_code)
        except TimeoutError:
            return f"no answer within {self._timeout_s:g} s"
        except Exception as error:  # noqa: BLE001 - a receiver, its certificate or its name can fail in any way
            return f"cannot be reached: {type(error).__name__}"

    def _connect(self) -> httpx2.AsyncClient:
        import httpx2  # slow to import, and most daemons post nothing

        self._client = httpx2.AsyncClient(
            follow_redirects=False, trust_env=False, timeout=self._timeout_s, headers={"user-agent": "holdfast"}
        )
        return self._client

    async def close(self) -> None:
        """Close all connections."""
        if self._client is not None:
            await self._client.aclose()


def _verdict_on(status: int) -> str | None:
    if 200 <= status < 300:
        return None
    return f"answered {status}" + ("; redirects are not followed" if 300 <= status < 400 else "")
