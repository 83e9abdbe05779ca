"""`holdfast open`: a link that logs a browser in, with and without `--listen`, and with no daemon at all."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from ...support.daemons import daemon, end_daemon
from ...support.web import fetch
from ..console import holdfast
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from pathlib import Path

JSON = {"Content-Type": "application/json"}


def logs_in(link: str) -> int:
    """Use the link as the page does; returns the status of a request that needs the session."""
    port, code = urlsplit(link).port, link.strip().partition("#login=")[2]
    assert port is not None
    body = json.dumps({"code": code}).encode()
    answer = fetch(port, "/v1/login", method="POST", body=body, headers=JSON)
    assert answer.status == 200, answer
    cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
    assert fetch(port, "/").status == 200  # the page itself
    return fetch(port, "/v1/runs", headers=cookie).status


def test_a_daemon_without_listen(state_directory: Path) -> None:
    with daemon(state_directory) as running:
        assert not (state_directory / "token").exists()
        first = holdfast("open", "--print")
        assert (first.returncode, first.stderr) == (0, b"")
        link = first.stdout.decode()
        assert link.startswith("http://127.0.0.1:")
        assert logs_in(link) == 200
        second = as_json(holdfast("open", "--json"))["urls"]
        assert [urlsplit(url).port for url in second] == [urlsplit(link).port], "one port for all links"
        assert logs_in(second[0]) == 200
        # The port is no way in for others.
        port = urlsplit(link).port
        assert port is not None
        assert fetch(port, "/v1/runs").status == 401
        assert fetch(port, "/v1/runs", headers={"Authorization": "Bearer wrong"}).status == 401
        assert fetch(port, "/v1/runs", headers={"Host": "attacker.example"}).status == 403
        assert running.until_line(f"^listening on http://127.0.0.1:{port}, for browsers")


def test_a_daemon_that_is_started_for_it(state_directory: Path) -> None:
    assert "no daemon answers" in one_line(holdfast("open", "--print"))
    try:
        done = holdfast("open", "--start", "--print")
        assert (done.returncode, done.stderr) == (0, b"")
        assert logs_in(done.stdout.decode()) == 200
    finally:
        end_daemon(state_directory)
