"""The programs of examples/ do what their first lines say, and leave nothing behind."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def typed(name: str, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """The program with these words, to its end."""
    argv = [sys.executable, str(EXAMPLES / name), *words]
    return subprocess.run(argv, input=stdin, capture_output=True, text=True, check=False, timeout=100)


def test_agent_shell() -> None:
    requests = [{"command": "echo $((6 * 7))"}, {"command": "echo begun; sleep 600", "timeout": 5}]
    done = typed("agent_shell.py", stdin="".join(json.dumps(each) + "\n" for each in requests))
    first, second = map(json.loads, done.stdout.splitlines())
    assert first == {"status": "succeeded", "exit_code": 0, "output": "42\n"}
    assert (second["status"], second["output"]) == ("timed_out", "begun\n")
    assert "deadline" in second["reason"]


def test_parallel_checks() -> None:
    done = typed("parallel_checks.py", "true", "echo broken; exit 3")
    assert done.returncode == 1, done.stderr
    first, second, shown = done.stdout.splitlines()
    assert first.startswith("succeeded")
    assert second.startswith("failed")
    assert shown == "broken"


def test_patient_download(tmp_path: Path) -> None:
    assert typed("patient_download.py", "echo", "data").stdout == "data\n"
    done = typed("patient_download.py", "sh", "-c", f"echo >>{tmp_path}/attempts; exit 22")
    assert (done.returncode, done.stderr) == (1, "gave up: the run failed: exited with code 22\n")
    assert (tmp_path / "attempts").read_text() == "\n"


def test_server_and_client(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (tmp_path / "page").write_text("hello\n")
    server = f"exec {sys.executable} -m http.server -b 127.0.0.1 -d {tmp_path} {port}"
    read = f"import urllib.request as r; print(r.urlopen('http://127.0.0.1:{port}/page').read().decode(), end='')"
    done = typed("server_and_client.py", str(port), server, f'{sys.executable} -c "{read}"')
    assert done.returncode == 0, done.stderr
    assert done.stdout == "hello\n"
    assert typed("server_and_client.py", str(port), "exit 3", "true").returncode == 1


def test_watched_build() -> None:
    done = typed("watched_build.py", "sh", "-c", "echo compiling; echo linked")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "\nsucceeded: linked\n"
    broken = typed("watched_build.py", "sh", "-c", "echo compiling; exit 2")
    assert broken.returncode == 1
    assert broken.stdout.endswith("\ncompiling\n")
