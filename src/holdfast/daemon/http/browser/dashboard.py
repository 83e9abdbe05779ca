"""Dashboard files: static, made when the package is built (see hatch_build.py); without them, a page that says so.

The files hold no secrets, so they are served without a login; the page then uses the same API as every other client.
The Content-Security-Policy lets the page run, load and request only what this daemon serves, and no site may frame it.
"""

from __future__ import annotations

import gzip
import hashlib
import os
from typing import TYPE_CHECKING, NamedTuple

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

DIRECTORY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "static")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
_HEADERS = {
    "Content-Security-Policy": _POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-cache",  # the browser asks each time and gets a 304: a new version is seen at once
    "Vary": "Accept-Encoding",
}
_ABSENT = b"""<!doctype html><html lang="en"><title>Holdfast</title><h1>Holdfast</h1>
<p>This Holdfast was installed without its dashboard. Build it (<code>make dashboard</code>), or install a wheel.
The API is at <code>/v1</code>, its description at <a href="/openapi.json">/openapi.json</a>.</p></html>
"""


class Asset(NamedTuple):
    """One file: its content, plain and compressed."""

    content: bytes
    compressed: bytes
    media_type: str
    tag: str


def paths(directory: str = DIRECTORY) -> frozenset[str]:
    """The paths of the dashboard: `/`, and one for each file."""
    return frozenset(("/", *(f"/static/{name}" for name in _names(directory))))


def routes(directory: str = DIRECTORY) -> list[BaseRoute]:
    """One route per file: a path that is not in this list is never looked up in the file system."""
    found = {f"/static/{name}": _load(os.path.join(directory, name)) for name in _names(directory)}
    found["/"] = found.pop("/static/index.html", _asset(_ABSENT, ".html"))
    return [Route(path, _endpoint(asset), methods=["GET"]) for path, asset in found.items()]


def _names(directory: str) -> list[str]:
    try:
        return sorted(name for name in os.listdir(directory) if os.path.splitext(name)[1] in _TYPES)
    except FileNotFoundError:
        return []


def _load(path: str) -> Asset:
    with open(path, "rb") as file:
        return _asset(file.read(), os.path.splitext(path)[1])


def _asset(content: bytes, extension: str) -> Asset:
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return Asset(content, gzip.compress(content, 9, mtime=0), _TYPES[extension], tag)


def _endpoint(asset: Asset) -> Callable[[Request], Awaitable[Response]]:
    async def serve(request: Request) -> Response:
        headers = {**_HEADERS, "ETag": asset.tag}
        if asset.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        if "gzip" in request.headers.get("accept-encoding", ""):
            headers["Content-Encoding"] = "gzip"
            return Response(asset.compressed, headers=headers, media_type=asset.media_type)
        return Response(asset.content, headers=headers, media_type=asset.media_type)

    return serve
