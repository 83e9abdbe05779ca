"""Conditions under which a run is ready, as people write them: `port:3000`, `log:REGEX`, `http:URL`.

Nothing here looks at a run: `readiness/` does. A condition of kind `http` names an address of loopback only: the
process that waits sends the request, and must not become a way to reach other hosts.
"""

from __future__ import annotations

from .errors import SpecError
from .fast_imports import TYPE_CHECKING, NamedTuple
from .ports import parse_port

if TYPE_CHECKING:
    from collections.abc import Iterable

KINDS = ("port", "log", "http")
MOST_CONDITIONS = 8
_LONGEST = 1000
_REMEDY = "write port:3000, log:REGEX or http://127.0.0.1:3000/path"


class HttpTarget(NamedTuple):
    """The target of an `http` condition."""

    host: str
    port: int
    path: str

    @property
    def authority(self) -> str:
        """Host and port as they stand in a URL."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


class ReadyCondition(NamedTuple):
    """One condition: its kind, and the text behind the colon. Of kind `http` the text is the whole URL."""

    kind: str
    text: str

    def __str__(self) -> str:
        return self.text if self.kind == "http" else f"{self.kind}:{self.text}"


def check_ready(value: str | Iterable[str]) -> tuple[str, ...]:
    """Check the conditions of a run; all of them must hold. SpecError names what is wrong."""
    texts = [value] if isinstance(value, str) else list(value)
    if len(texts) > MOST_CONDITIONS:
        raise SpecError(f"ready has more than {MOST_CONDITIONS} conditions", field="ready", remedy="leave some out")
    return tuple(str(parse_condition(text)) for text in texts)


def parse_condition(text: str) -> ReadyCondition:
    """The condition that this text names. SpecError: it is no condition, or can never hold."""
    if not isinstance(text, str) or len(text) > _LONGEST or not text.isprintable():
        message = f"ready is not text of at most {_LONGEST} printable characters"
        raise SpecError(message, field="ready", remedy=_REMEDY)
    kind, _, rest = text.partition(":")
    if kind not in KINDS or not rest:
        raise SpecError(f"ready {text[:60]!r} is no condition", field="ready", remedy=_REMEDY)
    if kind == "port":
        return ReadyCondition(kind, str(parse_port(rest, field="ready")))
    if kind == "log":
        _check_regex(rest)
        return ReadyCondition(kind, rest)
    url = f"http:{rest}" if rest.startswith("//") else rest
    http_target(url)
    return ReadyCondition(kind, url)


def http_target(url: str) -> HttpTarget:
    """Where the request of an `http` condition goes. SpecError: the URL is not `http://` at an address of loopback."""
    from urllib.parse import urlsplit

    # urlsplit drops line breaks, and a space would end the path of a request: both could change what is asked.
    if not url.isascii() or not url.isprintable() or " " in url:
        raise SpecError(f"ready {url[:60]!r} is not a URL", field="ready", remedy=_REMEDY)
    try:
        parts = urlsplit(url)
        port = parts.port or 80
    except ValueError:
        raise SpecError(f"ready {url[:60]!r} is not a URL", field="ready", remedy=_REMEDY) from None
    if parts.scheme != "http" or parts.username is not None or not parts.hostname:
        raise SpecError(f"ready {url[:60]!r} is not a plain http:// URL", field="ready", remedy=_REMEDY)
    if not _is_loopback(parts.hostname):
        remedy = "name 127.0.0.1, [::1] or localhost"
        raise SpecError(f"ready asks {parts.hostname[:60]!r}, which is not loopback", field="ready", remedy=remedy)
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return HttpTarget(parts.hostname, port, path)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    from ipaddress import ip_address

    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _check_regex(text: str) -> None:
    import re

    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError) as error:
        remedy = "write a regular expression of Python"
        raise SpecError(f"ready has an invalid regular expression: {error}", field="ready", remedy=remedy) from None
