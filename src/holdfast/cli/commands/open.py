"""`holdfast open`: print and open a link to the dashboard that logs a browser in, once."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..lookup.daemon_request import ask
from ..parsing.command import JSON, Command, no_words, open_state, put, show_json
from ..parsing.options import Option

if TYPE_CHECKING:
    from ..parsing.options import CommandLine

# A browser can appear only with one of these: a display, or the link opener of another system.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER")


def act(given: CommandLine) -> int:
    from ...client.calls import ClientCall

    no_words(given, "open")
    link = ask(open_state(given), ClientCall("POST", "/v1/login-links", json={}, repeats=False))
    if given.has("--json"):
        show_json(link)
        return 0
    put(f"{link['urls'][0]}\n")
    if not given.has("--print") and any(os.environ.get(name) for name in _DISPLAYS):
        _open(link["urls"][0])
    return 0


def _open(url: str) -> None:
    """Open a browser if there is one. The link is printed already, so the user can open it elsewhere."""
    import webbrowser

    try:
        webbrowser.open(url)
    except webbrowser.Error:
        pass


COMMAND = Command(
    "open [--print] [OPTIONS]",
    "Print a link to the daemon's dashboard that logs a browser in, once and within five minutes, and open it.",
    (Option("--print", None, "only print the link"), JSON),
    act,
    "The daemon needs --listen. From another host, forward its port: ssh -L 7300:127.0.0.1:7300 HOST.\n",
)
