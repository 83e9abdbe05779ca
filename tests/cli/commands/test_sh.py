"""`holdfast sh` and `holdfast-sh`: a shell that a harness cannot tell from its own, and whose commands end."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ...support.processes import wait_exited
from ..console import HOLDFAST, Console, holdfast, read_until, start
from ..kept_runs import as_json, one_line

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ..kept_runs import Runs

pytestmark = pytest.mark.guard

BASH = shutil.which("bash") or "bash"
ROOT = Path(__file__).parents[3]


@pytest.fixture
def own_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """`holdfast-sh` as the installation makes it, in front of bash."""
    program = tmp_path / "bin" / "holdfast-sh"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable}\nfrom holdfast.cli.main import shell\nshell()\n")
    program.chmod(0o755)
    monkeypatch.setenv("SHELL", BASH)
    for name in ("HOLDFAST_SHELL", "HOLDFAST_SH_OPTIONS", "HOLDFAST_SESSION", "CLAUDE_CODE_SESSION_ID"):
        monkeypatch.delenv(name, raising=False)
    return str(program)


def call(*words: str, **options: Any) -> tuple[int, bytes, bytes]:
    """Exit code and both streams."""
    options.setdefault("stdin", subprocess.DEVNULL)
    done = subprocess.run(words, capture_output=True, timeout=60, check=False, **options)
    return done.returncode, done.stdout, done.stderr


def only_run() -> dict[str, Any]:
    """The report of the one run that there is."""
    (listed,) = as_json(holdfast("ps", "--all", "--json"))
    report: dict[str, Any] = as_json(holdfast("show", "--json", listed["run_id"]))
    return report


# As a shell would.


@pytest.mark.parametrize(
    "words",
    [
        ["-c", 'echo "$0 $1"; exit 3', "name", "argument"],
        ["-lc", "shopt -q login_shell && echo login; echo error >&2"],
        ["-l", "-c", "echo $-"],
        ["--login", "-c", "echo $-"],
        ["-ec", "false; echo not here"],
        ["-e", "-o", "pipefail", "-c", "false | true; echo not here"],
        ["-euo", "pipefail", "-c", "echo $nothing; echo not here"],
        ["-c", "kill -TERM $$"],
        ["-c", "no-such-command-anywhere"],
        ["-c"],
        ["script", "argument"],
        ["-e", "script"],
        ["script"],
        ["-s", "argument"],
        [],
    ],
)
def test_holdfast_sh_does_what_bash_does(own_shell: str, words: Sequence[str], tmp_path: Path) -> None:
    (tmp_path / "script").write_text('echo "script $1"; exit 4\n')
    asked: dict[str, Any] = {"cwd": tmp_path, "input": b"echo typed; exit 5\n", "stdin": None}
    code, out, err = call(BASH, *words, **asked)
    code = 128 - code if code < 0 else code
    assert call(own_shell, *words, **asked) == (code, out, err)


def test_one_word_is_a_command_line(own_shell: str) -> None:
    """As Claude Code calls its prefix: the whole command, with all that is in it, as one argument."""
    line = r"""true && eval 'printf "%s|" "a  b" '"'"'$HOME'"'"' \\' \< /dev/null && pwd -P >| /dev/null; exit 7"""
    assert call(own_shell, line) == (7, b"a  b|$HOME|\\|", b"")


def test_one_word_that_can_be_executed_is_a_command(own_shell: str, tmp_path: Path) -> None:
    """A server that a harness starts through its prefix: the program's own interpreter counts."""
    program = tmp_path / "server"
    program.write_text(f"#!{sys.executable}\nprint('python')\n")
    program.chmod(0o755)
    assert call(own_shell, str(program)) == (0, b"python\n", b"")


def test_bytes_pass_unchanged(tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(os.urandom(1 << 20))
    code, out, err = call(*HOLDFAST, "sh", f"cat {noise}; cat {noise} >&2; exit 9")
    assert (code, out == noise.read_bytes(), err == noise.read_bytes()) == (9, True, True)


def test_streams_that_are_one_keep_their_order() -> None:
    line = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"
    done = subprocess.run(
        [*HOLDFAST, "sh", line], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=True
    )
    assert done.stdout == b"".join(b"out %d\nerr %d\n" % (i, i) for i in range(1, 10))


def test_stdin_and_environment_are_the_caller_s(own_shell: str) -> None:
    line = "cat; env -0 | tr '\\0\\n' '\\n ' | grep -v -e ^_= -e ^HOLDFAST_RUN_ID= | sort"
    variables = {**os.environ, "CLAUDECODE": "1", "CLAUDE_CODE_ENTRYPOINT": "cli", "NOTIFY_SOCKET": "/nowhere"}
    asked: dict[str, Any] = {"input": b"typed\n", "stdin": None, "env": variables}
    assert call(own_shell, "-c", line, **asked) == call(BASH, "-c", line, **asked)


@pytest.mark.parametrize("verbose", [False, True])
def test_no_line_of_our_own_unless_asked(*, verbose: bool) -> None:
    code, out, err = call(*HOLDFAST, "sh", "--timeout", "1500ms", *["--verbose"][:verbose], "echo text; sleep 600")
    assert (code, out) == (124, b"text\n")
    assert (b"timed out" in err) == verbose
    assert verbose or err == b""


def test_a_run_that_cannot_be_kept_is_no_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_STATE_DIR")
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null")
    assert call(*HOLDFAST, "sh", "echo text") == (0, b"text\n", b"")


def test_a_shell_that_cannot_start_is_told() -> None:
    assert "cannot be executed" in one_line(holdfast("sh", "--shell", "/nowhere/sh", "true"))
    done = holdfast("sh", "--cwd", "/nowhere", "true")
    assert done.returncode == 125
    assert b"the working directory cannot be entered" in done.stderr
    assert "no shell line was given" in one_line(holdfast("sh"))


# Which shell, and with which options.


def test_a_shell_variable_that_names_holdfast_sh(own_shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that runs `$SHELL -c`, and SHELL is holdfast-sh: it must not start itself for ever."""
    monkeypatch.setenv("SHELL", own_shell)
    program = "import os, subprocess; subprocess.run([os.environ['SHELL'], '-c', 'echo $SHELL'], check=True)"
    assert call(sys.executable, "-c", program) == (0, f"{own_shell}\n".encode(), b"")
    assert only_run()["argv"][0] != own_shell
    monkeypatch.setenv("HOLDFAST_SHELL", own_shell)
    code, _, err = call(own_shell, "-c", "true")
    assert (code, b"is holdfast-sh itself" in err) == (125, True)


def test_a_user_who_may_not_log_in(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The user database has `nologin` for such a user, as for `nobody`."""
    nologin = tmp_path / "nologin"
    nologin.write_text("#!/bin/sh\nexit 1\n")
    nologin.chmod(0o755)
    monkeypatch.setenv("SHELL", str(nologin))
    assert call(*HOLDFAST, "sh", "echo text") == (0, b"text\n", b"")


def test_another_shell(own_shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SHELL", "sh")
    call(own_shell, "-c", "true")
    assert os.path.basename(only_run()["argv"][0]) == "sh"
    assert call(*HOLDFAST, "sh", "--shell", "bash", "echo ${BASH_VERSION:+bash}")[1] == b"bash\n"


def test_options_in_the_environment(own_shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_SH_OPTIONS", "--timeout 200ms --name 'two words' --session s1")
    assert call(own_shell, "-c", "sleep 600") == (124, b"", b"")
    report = only_run()
    assert (report["name"], report["session"], report["cause"]) == ("two words", "s1", "deadline")
    for wrong, told in (("make", "which is no option"), ("--name 'x", "cannot be read"), ("--tmeout 1", "--timeout")):
        monkeypatch.setenv("HOLDFAST_SH_OPTIONS", wrong)
        code, out, err = call(own_shell, "-c", "echo not here")
        assert (code, out, told in err.decode()) == (125, b"", True)


def test_the_session_is_the_harness_s(own_shell: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CODE_SESSION_ID", "abc")
    call(own_shell, "-c", "true")
    assert only_run()["session"] == "claude-abc"


# At a terminal.


def test_an_interactive_shell_is_the_real_one(own_shell: str) -> None:
    with Console(own_shell, "--norc") as console:
        console.type(b"echo is-$$-$-; exit 6\n")
        console.until(f"is-{console.process.pid}-".encode())
        assert console.wait() == 6


def test_a_command_gets_no_new_terminal(own_shell: str) -> None:
    with Console(own_shell, "-c", "tty; read -r line; echo got-$line") as console:
        console.until(os.ttyname(console.terminal).encode())
        console.type(b"keys\n")
        console.until(b"got-keys")
        assert console.wait() == 0


# Signals, and the end.


@pytest.mark.parametrize(
    ("number", "times", "line", "out", "code"),
    [
        (signal.SIGINT, 1, "trap 'echo int; exit 9' INT", b"int\n", 130),
        (signal.SIGTERM, 1, "trap 'echo term; exit 9' TERM", b"term\n", 143),
        (signal.SIGINT, 2, "trap '' INT TERM", b"", 130),
    ],
)
def test_signals_to_the_whole_group(number: int, times: int, line: str, out: bytes, code: int, runs: Runs) -> None:
    """As Ctrl-C at a terminal, once and twice, and as a harness that ends the group of its tool."""
    runs.ids.append("r1")
    with start("sh", "--late", "--id", "r1", f"{line}; echo ready; while :; do sleep 600 & wait; done") as process:
        assert process.stdout is not None
        read_until(process.stdout.fileno(), b"ready\n")
        os.killpg(process.pid, number)
        if times == 2:
            while not any(fact["fact"] == "stop_asked" for fact in runs.report("r1")["evidence"]):
                pass  # the guard has not taken the first yet: another at this moment would be an echo of it
            os.killpg(process.pid, number)
        rest = process.communicate(timeout=30)[0]
        assert (process.returncode, rest) == (code, out)
    assert runs.report("r1")["tree"] == "gone"


@pytest.mark.parametrize("options", [[], ["--without-parent"]])
def test_it_ends_with_the_harness(
    own_shell: str, options: list[str], monkeypatch: pytest.MonkeyPatch, runs: Runs
) -> None:
    monkeypatch.setenv("HOLDFAST_SH_OPTIONS", " ".join(["--id r1", *options]))
    runs.ids.append("r1")
    line = "setsid sleep 600 & setsid -f sleep 600; echo ready; sleep 600"
    program = f"import subprocess; subprocess.run([{own_shell!r}, {line!r}])"
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as harness:
        assert harness.stdout is not None
        read_until(harness.stdout.fileno(), b"ready\n")
        (own,) = (int(pid) for pid in Path(f"/proc/{harness.pid}/task/{harness.pid}/children").read_text().split())
        harness.kill()
    if options:
        assert holdfast("extend", "r1", "1s").returncode == 125, "the guard has answered since"
        assert runs.report("r1")["state"] == "running"
        runs.end_all()
    assert holdfast("wait", "r1").returncode == 143
    assert wait_exited(own)
    assert (runs.report("r1")["cause"], runs.report("r1")["tree"]) == ("user" if options else "owner", "gone")


# Tools that call a shell by its path: each leaves a daemon behind, and it ends.

LEAVES = "setsid sleep 600 & setsid -f sleep 600; echo done-$(expr 1 + 1)"


def ended_run() -> None:
    report = only_run()
    assert (report["status"], report["tree"], report["stragglers"]) == ("succeeded", "gone", 2)


def test_make(own_shell: str, tmp_path: Path) -> None:
    (tmp_path / "Makefile").write_text(f"all:\n\t@{LEAVES.replace('$', '$$')}\n")
    code, out, err = call("make", "-s", "-C", str(tmp_path), f"SHELL={own_shell}", "HOLDFAST_SHELL=/bin/sh")
    assert (code, out, err) == (0, b"done-2\n", b"")
    ended_run()


def test_npm(own_shell: str, tmp_path: Path) -> None:
    (tmp_path / "package.json").write_text('{"scripts": {"go": ' + f'"{LEAVES}"' + "}}")
    code, out, _ = call("npm", "run", "--silent", f"--script-shell={own_shell}", "go", cwd=tmp_path)
    assert (code, out) == (0, b"done-2\n")
    ended_run()


def test_just(own_shell: str, tmp_path: Path) -> None:
    just = shutil.which("just", path=os.pathsep.join((os.path.dirname(sys.executable), *os.get_exec_path())))
    assert just is not None, "rust-just is a development dependency: run make suite"
    (tmp_path / "justfile").write_text(f"go:\n    @{LEAVES}\n")
    assert call(just, "--shell", own_shell, "go", cwd=tmp_path) == (0, b"done-2\n", b"")
    ended_run()


def test_a_shell_prefix(own_shell: str) -> None:
    """Claude Code's way: the prefix is one path, perhaps with flags, and the whole command is one quoted word."""
    for prefix in (shlex.quote(own_shell), f"{shlex.quote(own_shell)} -c"):
        assert call("sh", "-c", f"{prefix} {shlex.quote(LEAVES)}") == (0, b"done-2\n", b"")
        holdfast("prune", "--older-than", "0s")


def test_the_installation_has_holdfast_sh() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["scripts"]["holdfast-sh"] == "holdfast.cli.main:shell"
