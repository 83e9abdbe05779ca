"""`holdfast open`: print and open a link to the dashboard that logs a browser in, once.

The link holds a code that lets its user run commands. Every user of the host can read command lines, so the browser
gets the name of a file instead. Only our user can read the file, and it leads the browser to the link.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from ..lookup.daemon_request import ask
from ..lookup.daemon_state import START, daemon_state
from ..parsing.command import JSON, Command, no_words, put, show_json
from ..parsing.options import Option

if TYPE_CHECKING:
    from ...state.directory import StateDirectory
    from ..parsing.options import CommandLine

_REMEDY = "start one: holdfast open --start, or holdfast serve"
_PAGE = "login-"  # how the names of the pages begin
_CODE_S = 60  # how long a code works
_HTML = """<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0;url={url}"><title>Holdfast</title><a href="{url}">Holdfast</a>
"""
# A browser can appear only with one of these: a display, or the link opener of another system.
_DISPLAYS = ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME", "BROWSER")


def act(given: CommandLine) -> int:
    from ...client.calls import ClientCall

    no_words(given, "open")
    state = daemon_state(given, _REMEDY)
    link = ask(state, ClientCall("POST", "/v1/login-links", json={"any_user": given.has("--any-user")}, repeats=False))
    if given.has("--json"):
        show_json(link)
        return 0
    put(f"{link['urls'][0]}\n")
    if not given.has("--print") and any(os.environ.get(name) for name in _DISPLAYS):
        _open(_write_page(state, link["urls"][0]))
    return 0


def _open(path: str) -> None:
    """Open a browser if there is one. The link is printed already, so the user can open it elsewhere."""
    import webbrowser
    from pathlib import Path

    try:
        webbrowser.open(Path(path).as_uri())
    except webbrowser.Error:
        pass


def _write_page(state: StateDirectory, url: str) -> str:
    """Write the page that leads a browser to this URL, for our user only; returns its path.

    Pages of earlier links are removed: a code works for a minute only, and nobody needs its page after that.
    StateError: the page cannot be written.
    """
    from ...state.directory import state_error
    from ...state.owned_files import create_in, open_directory

    name = f"{_PAGE}{os.urandom(6).hex()}.html"
    path = os.path.abspath(os.path.join(state.path, name))
    try:
        directory = open_directory(state.path)
        try:
            _remove_old_pages(directory)
            with open(create_in(directory, name), "w") as page:
                page.write(_HTML.format(url=url))
        finally:
            os.close(directory)
    except OSError as error:
        raise state_error(error, path) from None
    return path


def _remove_old_pages(directory: int) -> None:
    oldest = time.time() - _CODE_S
    for name in os.listdir(directory):
        if name.startswith(_PAGE) and os.stat(name, dir_fd=directory, follow_symlinks=False).st_mtime < oldest:
            os.unlink(name, dir_fd=directory)


COMMAND = Command(
    "open [--start] [--print] [--any-user] [OPTIONS]",
    "Print a link to the daemon's dashboard that logs a browser in, once and within a minute, and open it.",
    (
        START,
        Option("--print", None, "only print the link"),
        Option("--any-user", None, "the link works for any user and address: for a proxy, or another host without ssh"),
        JSON,
    ),
    act,
    "The link works for your user on the daemon's host only, also through ssh. A daemon without --listen opens a port\n"
    "of 127.0.0.1 for it. From another host, forward the port of the link: ssh -L 7300:127.0.0.1:PORT HOST.\n",
)
