"""A login code in the hands of a second real user: it works once, and only for who asked."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from holdfast.access.tokens import TokenFile

from ..support.daemons import BOUND_S, daemon
from ..support.unprivileged import as_nobody
from ..support.web import fetch, port_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.daemons import Daemon

pytestmark = pytest.mark.guard
JSON = {"Content-Type": "application/json"}
NOT_AGAIN = "from holdfast.daemon.http.access import open_requests as o; o.EVERY_S = 1e6"
THIEF = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]), timeout=60)
connection.request("POST", "/v1/login", json.dumps({"code": sys.argv[2]}), {"Content-Type": "application/json"})
answer = connection.getresponse()
print(answer.status, answer.headers["set-cookie"], answer.read().decode())
"""


def code_of(running: Daemon, *options: str) -> str:
    """The code of a link that `holdfast open` prints."""
    command = [sys.executable, "-m", "holdfast.cli.main", "open", "--print", "--state-dir", str(running.state_dir)]
    done = subprocess.run([*command, *options], check=True, capture_output=True, text=True)
    return done.stdout.strip().partition("#login=")[2]


def stolen(running: Daemon, code: str) -> str:
    """What the daemon answers to `nobody`, who has read the code somewhere."""
    words = as_nobody([sys.executable, "-c", THIEF, str(port_of(running)), code])
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=BOUND_S).stdout


def login(running: Daemon, code: str) -> int:
    body = json.dumps({"code": code}).encode()
    return fetch(port_of(running), "/v1/login", method="POST", body=body, headers=JSON).status


@pytest.mark.root
def test_a_code_that_another_user_has_read_is_refused_and_works_for_its_owner(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        code = code_of(running)
        refused = stolen(running, code)
        assert refused.startswith("403 None")
        assert "this link is for another user" in refused
        assert login(running, code) == 200
        assert login(running, code) == 401  # once


@pytest.mark.root
def test_only_a_link_for_any_user_works_for_any_user(tmp_path: Path) -> None:
    """The control of the test above: nothing else in its way stops the thief."""
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        assert stolen(running, code_of(running, "--any-user")).startswith("200 holdfast-")


def test_a_code_that_was_asked_for_with_the_token_is_for_who_asked(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        token = (running.state_dir / "token").read_text().strip()
        bearer = {**JSON, "Authorization": f"Bearer {token}"}
        made = fetch(port_of(running), "/v1/login-links", method="POST", body=b"{}", headers=bearer)
        assert login(running, made.json["path"].partition("#login=")[2]) == 200


def test_log_out_ends_the_session_for_good(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        port = port_of(running)
        body = json.dumps({"code": code_of(running)}).encode()
        answer = fetch(port, "/v1/login", method="POST", body=body, headers=JSON)
        cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
        both = {**cookie, "Holdfast-CSRF": answer.json["csrf"]}
        assert fetch(port, "/v1/login/session", headers=cookie).json == {"by": "session", "csrf": None}
        assert fetch(port, "/v1/login/session", method="DELETE", headers=cookie).status == 403
        assert fetch(port, "/v1/runs", headers=both).status == 200
        assert fetch(port, "/v1/login/session", method="DELETE", headers=both).status == 200
        assert fetch(port, "/v1/runs", headers=both).status == 401
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        assert fetch(port_of(running), "/v1/runs", headers=both).status == 401


def opened_with(running: Daemon, name: str) -> dict[str, str]:
    """The cookie and the CSRF token of a browser that was logged in with a new token of this name."""
    _, secret = TokenFile(str(running.state_dir)).create(name, "admin")
    bearer = {**JSON, "Authorization": f"Bearer {secret}"}
    made = fetch(port_of(running), "/v1/login-links", method="POST", body=b"{}", headers=bearer)
    return logged_in(running, made.json["path"].partition("#login=")[2])


def logged_in(running: Daemon, code: str) -> dict[str, str]:
    body = json.dumps({"code": code}).encode()
    answer = fetch(port_of(running), "/v1/login", method="POST", body=body, headers=JSON)
    return {"Cookie": answer.headers["set-cookie"].partition(";")[0], "Holdfast-CSRF": answer.json["csrf"]}


def test_a_session_ends_with_the_token_that_made_it(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        port, tokens = port_of(running), TokenFile(str(running.state_dir))
        gone, stays, owner = opened_with(running, "gone"), opened_with(running, "stays"), code_of(running)
        asked = json.dumps({"name": "new", "role": "admin"}).encode()
        tokens.revoke("gone")
        assert fetch(port, "/v1/tokens", headers=gone).status == 401
        assert fetch(port, "/v1/tokens", method="POST", body=asked, headers={**JSON, **gone}).status == 401
        tokens.create("gone", "admin")  # another token of the same name
        assert fetch(port, "/v1/tokens", headers=gone).status == 401
        for other in (stays, logged_in(running, owner)):  # control
            assert fetch(port, "/v1/tokens", headers=other).status == 200
        assert fetch(port, "/v1/tokens", method="POST", body=asked, headers={**JSON, **stays}).status == 201
        made = running.request("GET", "/v1/audit?action=POST%20/v1/tokens").body["records"]
        assert [(one["by"], one["token"]) for one in made if one["status"] == 201] == [("session", "stays")]


def test_a_code_ends_with_the_token_that_made_it(tmp_path: Path) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0") as running:
        tokens = TokenFile(str(running.state_dir))
        for is_revoked, status in ((True, 401), (False, 200)):
            _, secret = tokens.create("adm", "admin")
            bearer = {**JSON, "Authorization": f"Bearer {secret}"}  # on the socket, too, the token decides
            made = fetch(running, "/v1/login-links", method="POST", body=b"{}", headers=bearer)
            if is_revoked:
                tokens.revoke("adm")
            assert login(running, made.json["path"].partition("#login=")[2]) == status


@pytest.mark.parametrize("before", ["", NOT_AGAIN], ids=["", "control"])
def test_log_out_ends_the_streams_of_the_session(tmp_path: Path, before: str) -> None:
    with daemon(tmp_path / "state", "--listen", "127.0.0.1:0", before=before) as running:
        both = logged_in(running, code_of(running))
        seen = b""
        with socket.create_connection(("127.0.0.1", port_of(running)), timeout=30) as stream:
            stream.sendall(f"GET /v1/events HTTP/1.1\r\nHost: localhost\r\nCookie: {both['Cookie']}\r\n\r\n".encode())
            assert stream.recv(12) == b"HTTP/1.1 200"
            assert fetch(port_of(running), "/v1/login/session", method="DELETE", headers=both).status == 200
            if before:
                running.submit(["true"], run_id="still-told")
            end = time.monotonic() + 30
            with suppress(ConnectionResetError):
                while b"still-told" not in seen and (part := stream.recv(65536)):
                    seen += part
                    assert time.monotonic() < end
        assert (b"still-told" in seen) == bool(before)
