"""`holdfast` itself: help, version, and the answers to a wrong command line."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import version

import pytest

from holdfast.cli.parsing.options import Option, UsageError, parse
from holdfast.cli.parsing.run_options import OPTIONS, spec_of

from .console import holdfast

TABLE = (Option("--value", "V", ""), Option("--switch", None, ""), Option("--many", "M", "", many=True))


def test_version() -> None:
    done = holdfast("--version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"holdfast {version('holdfast')}\n".encode(), b"")


@pytest.mark.parametrize("words", [["--help"], ["-h"], ["help"]])
def test_help(words: list[str]) -> None:
    done = holdfast(*words)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"usage: holdfast COMMAND" in done.stdout


def test_help_of_run_names_every_option() -> None:
    done = holdfast("run", "--help")
    assert (done.returncode, done.stderr) == (0, b"")
    assert all(option.flag.encode() in done.stdout for option in OPTIONS)
    assert all(len(line) <= 120 for line in done.stdout.splitlines())


@pytest.mark.parametrize(
    ("words", "line"),
    [
        ([], "no command was given: try `holdfast run -- COMMAND`, or `holdfast --help`"),
        (["frobnicate"], "unknown command 'frobnicate': see `holdfast --help` for"),
        (["--frobnicate"], "unknown option '--frobnicate': see `holdfast --help` for"),
        (["run"], "no command was given: write holdfast run [OPTIONS] -- COMMAND [ARG]..."),
        (["run", "--timeout"], "--timeout needs a value: write --timeout DURATION"),
        (["run", "--timout", "1", "true"], "unknown option '--timout': did you mean --timeout?"),
        (["serve", "--allow-remote"], "unknown option '--allow-remote': did you mean --insecure-plain-tcp?"),
        (["run", "-x"], "unknown option '-x': see --help; to run a command of that name put -- before it"),
        (["ps", "-i"], "unknown option '-i': see --help"),
        (["run", "--workdir", "/", "true"], "unknown option '--workdir': did you mean --cwd?"),
        (["signal", "r1", "FOO"], "SIGNAL 'FOO' is no signal on this system"),
        (["exec", "r1", "ls"], "unknown command 'exec': holdfast run runs a command, holdfast attach connects to"),
        (["prun"], "unknown command 'prun': did you mean holdfast prune?"),
        (["explain", "r1"], "unknown command 'explain': holdfast why tells what happened to a run"),
        (["cancel", "--force", "r1"], "unknown option '--force': did you mean --now?"),
        (["run", "--mem", "1G", "true"], "unknown option '--mem': did you mean --memory?"),
        (["run", "--pty=yes", "true"], "--pty takes no value: write --pty alone, or leave it out"),
        (["run", "--pty", "--no-pty", "true"], "--pty and --no-pty were both given: leave one of them out"),
        (["run", "--env", "secret", "true"], "a value of --env is not of the form NAME=VALUE: write --env NAME=VALUE"),
        (["run", "--lifetime", "forever", "true"], "--lifetime 'forever' is unknown: "),
        (["run", "--lifetime", "session", "true"], "lifetime 'session' needs a session: "),
        (["run", "--detach", "--lifetime", "owner", "true"], "--lifetime owner would end the run as soon as"),
        (["run", "--detach", "--stdin", "inherit", "true"], "--stdin inherit would hold the caller's stdin open"),
        (["run", "--detach", "--report", "/tmp/x", "true"], "--report needs somebody who waits: "),
        (["run", "--timeout", "-1", "true"], "--timeout must not be negative: "),
        (["run", "--timeout", "0", "true"], "leave the option out for no limit"),
        (["run", "--timeout", "soon", "true"], "--timeout "),
        (["run", "--memory", "much", "true"], "--memory 'much' is not a size: write bytes as a whole number, or "),
        (["run", "--pids", "many", "true"], "--pids 'many' is not a number: write a whole number, such as 500"),
        (["run", "--pids", "1.5", "true"], "--pids '1.5' is not a whole number: write a whole number, such as 500"),
        (["run", "--pids", "-1", "true"], "--pids must not be negative: write a whole number, such as 500"),
        (["run", "--pids", "9" * 30, "true"], "--pids is more than the 4194304 a kernel can have: leave the option"),
        (["prune", "--older-than", "x"], "holdfast: --older-than 'x' is not a duration: write seconds as a number, "),
        (["prune", "--max-size", "x"], "holdfast: --max-size 'x' is not a size: "),
        (["mcp", "--max-output", "x"], "holdfast: --max-output 'x' is not a size: "),
        (["run", "--ladder", "TERM:1s,NOPE", "true"], "--ladder 'NOPE' is no signal"),
        (["run", "--id", "Not An Id", "true"], "--id 'Not An Id' is not a run id: "),
        (["run", "--stragglers", "adopt", "true"], "--stragglers 'adopt' is unknown: use one of kill, wait, leave"),
        (["run", "--pty", "--stdin", "null", "true"], "leave out --stdin or --pty"),
        (["run", "--warn-before", "5", "true"], "--warn-before "),
        (["run", "--stdin", "/nonexistent", "true"], "stdin cannot be read from '/nonexistent': "),
        (["run", "--env-file", "/nonexistent", "true"], "--env-file '/nonexistent' cannot be read: "),
        (["run", "--report", "/nonexistent/x", "true"], "--report cannot be written to '/nonexistent/x': "),
        (["run", "--report", "/", "true"], "--report cannot be written to '/': "),
        (["run", "--report", "", "true"], "--report '' names no file: name one, or leave the option out"),
        (["run", "--report", "-", "true"], "--report - would mix with the command's output: "),
        (["run", ""], "the command's name is empty: "),
    ],
)
def test_a_wrong_command_line_is_one_line_and_125(words: list[str], line: str) -> None:
    done = holdfast(*words)
    assert (done.returncode, done.stdout) == (125, b"")
    (told,) = done.stderr.decode().splitlines()
    assert told.startswith("holdfast: ")
    assert line in told


def test_a_defect_of_ours_is_told_in_lines_that_can_be_read() -> None:
    script = (
        "import sys; from holdfast.cli import main\n"
        "def fail(): raise RuntimeError('first\\nsecond\\x1b[31m')\n"
        "main._version = fail; sys.exit(main.main(['--version']))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    first, *trace, last = done.stderr.splitlines()
    assert (done.returncode, first) == (125, "holdfast: this is a defect in Holdfast, please report it:")
    assert trace[0] == "Traceback (most recent call last):"
    assert trace[-1] == "RuntimeError: first"
    assert last == r"second\x1b[31m"


def test_options_end_at_the_first_other_word() -> None:
    parsed = parse(TABLE, ["--value", "1", "--switch", "ls", "--value", "2", "--", "-l"])
    assert parsed.last("--value") == "1"
    assert parsed.has("--switch")
    assert parsed.words == ["ls", "--value", "2", "--", "-l"]


def test_two_dashes_end_the_options_and_are_not_passed_on() -> None:
    assert parse(TABLE, ["--", "--value", "1"]).words == ["--value", "1"]
    assert parse(TABLE, ["--", "--", "x"]).words == ["--", "x"]


def test_values_may_look_like_options_and_be_empty() -> None:
    parsed = parse(TABLE, ["--value", "--switch", "--many=", "--many", "a=b", "-"])
    assert parsed.last("--value") == "--switch"
    assert parsed.all("--many") == ["", "a=b"]
    assert not parsed.has("--switch")
    assert parsed.words == ["-"]


def test_the_last_value_counts() -> None:
    assert parse(TABLE, ["--value", "1", "--value=2"]).last("--value") == "2"


def test_an_unknown_option_is_refused() -> None:
    with pytest.raises(UsageError):
        parse(TABLE, ["--valu", "1"])


def test_every_option_reaches_the_spec() -> None:
    words = [
        *("--timeout", "10m", "--max-timeout", "1h", "--idle-timeout", "2m", "--idle-counts", "output,cpu"),
        *("--warn-before", "30s", "--warn-signal", "USR2", "--ladder", "INT:2s,TERM:8s,KILL", "--grace", "3"),
        *("--drain", "1s", "--drain-idle", "100ms", "--kill-wait", "4", "--stragglers", "wait", "--cwd", "/"),
        *("--env", "A=1", "--env", "B=x=y", "--env-keep", "CLAUDE*", "--env-drop", "LS_COLORS", "--stdin", "null"),
        *("--memory", "1G", "--pids", "50", "--max-output", "10M", "--on-max-output", "drop", "--session", "s"),
        *("--label", "team=core", "--name", "build", "--id", "my-run", "--lifetime", "owner", "--merge"),
    ]
    spec = spec_of(parse(OPTIONS, [*words, "--", "ls", "-l"]))
    assert spec.argv == ("ls", "-l")
    assert (spec.timeout_s, spec.max_timeout_s, spec.idle_timeout_s) == (600, 3600, 120)
    assert spec.idle_counts == {"output", "cpu"}
    assert (spec.warn_before_s, spec.warn_signal) == (30, 12)
    assert [tuple(rung) for rung in spec.ladder] == [(2, 2), (15, 8), (9, 0)]
    assert (spec.grace_s, spec.drain_s, spec.drain_idle_s, spec.kill_wait_s) == (3, 1, 0.1, 4)
    assert (spec.stragglers, spec.cwd, spec.stdin, spec.merge, spec.pty) == ("wait", "/", "null", True, False)
    assert spec.env == {"A": "1", "B": "x=y"}
    assert (spec.env_keep, spec.env_drop) == (("CLAUDE*",), ("LS_COLORS",))
    assert (spec.memory_bytes, spec.pids, spec.max_output_bytes) == (1 << 30, 50, 10 << 20)
    assert (spec.on_max_output, spec.session, spec.labels) == ("drop", "s", (("team", "core"),))
    assert (spec.name, spec.run_id, spec.lifetime) == ("build", "my-run", "owner")


SHORT = (
    Option("--all", None, "", short="a"),
    Option("--quiet", None, "", short="q"),
    Option("--lines", "N", "", short="n"),
    Option("--env", "V", "", many=True, short="e"),
)


@pytest.mark.parametrize(
    ("words", "values", "rest"),
    [
        (["-a", "-q", "x"], {"--all": [""], "--quiet": [""]}, ["x"]),
        (["-aq"], {"--all": [""], "--quiet": [""]}, []),
        (["-n", "5", "-n6", "-n=7"], {"--lines": ["5", "6", "7"]}, []),
        (["-aqn5", "-q"], {"--all": [""], "--quiet": ["", ""], "--lines": ["5"]}, []),
        (["-e", "A=-a", "-eB=1", "--", "-a"], {"--env": ["A=-a", "B=1"]}, ["-a"]),
        (["-n", "-1", "-"], {"--lines": ["-1"]}, ["-"]),
    ],
)
def test_short_names(words: list[str], values: dict[str, list[str]], rest: list[str]) -> None:
    given = parse(SHORT, words)
    assert (given.values, given.words) == (values, rest)


@pytest.mark.parametrize(
    ("words", "what"),
    [(["-n"], "--lines needs a value"), (["-ax"], "'-x'"), (["-x"], "'-x'"), (["-a=1"], "unknown option '-'")],
)
def test_short_names_that_do_not_fit(words: list[str], what: str) -> None:
    with pytest.raises(UsageError, match=what):
        parse(SHORT, words)


@pytest.mark.parametrize("name", ["run", "ps", "submit", "stdio", "acp", "sh"])
def test_every_way_to_ask_for_help(name: str) -> None:
    (text,) = {holdfast(*words).stdout for words in ([name, "--help"], [name, "-h"], ["help", name])}
    assert f"usage: holdfast {name}".encode() in text


def test_the_names_of_others() -> None:
    for words in (["list"], ["ls"], ["status"]):
        assert holdfast(*words).stdout == holdfast("ps").stdout
    for words in (["stop", "x"], ["kill", "x"], ["tail", "x"], ["inspect", "x"], ["status", "x"]):
        done = holdfast(*words)
        assert done.returncode == 125
        assert b"state directory" in done.stderr, "it is the command that was meant"


def test_a_variable_of_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINE", "a=b")
    spec = spec_of(parse(OPTIONS, ["-e", "MINE", "-e", "OTHER=1", "true"]))
    assert {"MINE": "a=b", "OTHER": "1"}.items() <= dict(spec.env or {}).items()
