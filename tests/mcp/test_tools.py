"""The answers of the tools, asked by a real client of a real server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from ..support.processes import wait_exited
from .serving import BOUND_S, answer_of, report_of

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.children import Children
    from .serving import Answer, Caller, HttpServer

pytestmark = pytest.mark.anyio
NAMES = ["exec", "poll", "output", "wait", "cancel", "send_input", "list", "changes"]


def fifo(directory: Path, name: str) -> str:
    path = str(directory / name)
    os.mkfifo(path)
    return path


async def open_for_writing(path: str) -> int:
    """Open the pipe; returns when the command reads from it: then it is running."""
    with anyio.fail_after(BOUND_S):
        return await anyio.to_thread.run_sync(os.open, path, os.O_WRONLY)


async def ended(call: Caller, run_id: str) -> Answer:
    await call("cancel", run_id=run_id, now=True)
    return await call("wait", run_id=run_id)


async def test_the_tools_are_described(call: Caller) -> None:
    tools = (await call.client.list_tools()).tools
    assert [tool.name for tool in tools] == NAMES
    for tool in tools:
        assert tool.description
        assert tool.output_schema is not None
        assert tool.annotations is not None
    reading = [tool.name for tool in tools if tool.annotations and tool.annotations.read_only_hint]
    assert reading == ["poll", "output", "wait", "list", "changes"]


async def test_a_command_that_ends_in_time_is_answered_with_its_result(call: Caller, allowed: Path) -> None:
    answer = await call("exec", command="pwd; echo problem >&2")
    assert answer.verdict == ("succeeded", "exit", 0)
    assert (answer["state"], answer["tree"], answer["escalated"]) == ("settled", "gone", False)
    assert answer["output"] == f"{allowed}\nproblem\n"
    assert (answer["output_offset"], answer["truncated"]) == (0, False)
    assert answer.text == f"succeeded (exit): exited with code 0\n{answer['output']}"
    assert not answer.is_error


async def test_what_failed_is_an_error_result_with_the_outcome(call: Caller) -> None:
    answer = await call("exec", argv=["sh", "-c", "exit 7"])
    assert answer.verdict == ("failed", "exit", 7)
    assert answer.is_error
    killed = await call("exec", command="kill -9 $$")
    assert (killed["status"], killed["cause"], killed["signal"], killed.is_error) == ("failed", "signal", 9, True)
    missing = await call("exec", argv=["/no/such/program"])
    assert (missing["status"], missing["cause"], missing.is_error) == ("failed", "spawn", True)
    assert "/no/such/program" in str(missing["argv"])


async def test_a_timeout_stays_one_when_the_command_exits_with_0_late(call: Caller, child: Children) -> None:
    answer = await call("exec", argv=child("exits_on_term", 0), timeout_s=1)
    assert answer.verdict == ("timed_out", "deadline", 0)
    assert answer.is_error
    assert answer.text.startswith("timed_out (deadline): deadline of 1s passed; SIGTERM")
    again = await call("poll", run_id=answer["run_id"])
    assert again.verdict == answer.verdict
    assert again.is_error


async def test_silence_is_a_cause_of_its_own(call: Caller, child: Children) -> None:
    answer = await call("exec", argv=child("exits_on_term", 0), idle_timeout_s=0.3)
    assert (answer["status"], answer["cause"]) == ("timed_out", "idle")


async def test_a_command_that_takes_longer_goes_on_in_the_background(call: Caller, tmp_path: Path) -> None:
    gate = fifo(tmp_path, "gate")
    answer = await call("exec", command=f"echo before; read line <{gate}; echo after", wait_s=0.2)
    assert (answer.verdict, answer.is_error) == ((None, None, None), False)
    assert answer["run_id"] in answer.text
    run_id = answer["run_id"]
    polled = await call("poll", run_id=run_id)
    assert (polled["state"], polled["status"], polled["output"]) == ("running", None, "")
    page = await call("output", run_id=run_id)
    assert (page["text"], page["next_offset"], page["more"], page["complete"]) == ("before\n", 7, False, False)
    assert [run["run_id"] for run in (await call("list"))["runs"]] == [run_id]
    os.close(await open_for_writing(gate))
    waited = await call("wait", run_id=run_id)
    assert waited.verdict == ("succeeded", "exit", 0)
    assert waited["output"] == "before\nafter\n"
    rest = await call("output", run_id=run_id, offset=page["next_offset"])
    assert (rest["text"], rest["more"], rest["complete"]) == ("after\n", False, True)


async def test_progress_is_told_while_waiting(call: Caller, tmp_path: Path) -> None:
    gate = fifo(tmp_path, "gate")
    told: list[tuple[float, float | None, str | None]] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, total, message))
        if len(told) == 1:  # the command waits for this: so the progress comes before the end
            os.close(await open_for_writing(gate))

    arguments: dict[str, Any] = {"command": f"echo hello; read line <{gate}", "wait_s": BOUND_S}
    answer = answer_of(await call.client.call_tool("exec", arguments, progress_callback=on_progress))
    assert told[0][1:] == (BOUND_S, "running, 6 bytes of output")
    assert answer["cause"] == "exit"


async def test_a_call_that_is_given_up_leaves_the_run_alone(call: Caller, server: HttpServer, tmp_path: Path) -> None:
    gate = fifo(tmp_path, "gate")
    async with server.client() as impatient, anyio.create_task_group() as group:

        async def wait_for_ever() -> None:
            await impatient("exec", command=f"read line <{gate}; echo got it", wait_s=BOUND_S, name="given up")

        group.start_soon(wait_for_ever)
        writer = await open_for_writing(gate)
        group.cancel_scope.cancel()
    # The client is gone, with its connection. Another client finds the run, which goes on undisturbed.
    (run,) = [run for run in (await call("list"))["runs"] if run["name"] == "given up"]
    assert run["state"] == "running"
    os.close(writer)
    waited = await call("wait", run_id=run["run_id"])
    assert waited["output"] == "got it\n"


async def test_cancelling_ends_the_whole_tree(call: Caller, child: Children) -> None:
    started = await call("exec", command=f"{child('ignores_term')[0]} & {child('ignores_term')[0]}", wait_s=0)
    run_id = started["run_id"]
    text = ""
    while text.count("\n") < 2:
        text += (await call("output", run_id=run_id, offset=len(text), wait_s=BOUND_S))["text"]
    pids = [int(word.removeprefix("pid=")) for word in text.split() if word.startswith("pid=")]
    answer = await call("cancel", run_id=run_id, reason="enough", now=True)
    assert (answer["status"], answer["cause"], answer["tree"]) == ("cancelled", "user", "gone")
    assert (answer["escalated"], answer.is_error) == (True, False)
    assert "enough" in answer["reason"]
    assert all(wait_exited(pid) for pid in pids)
    assert (await call("wait", run_id=run_id)).is_error
    once_more = await call("cancel", run_id=run_id)
    assert (once_more["status"], once_more["cause"]) == ("cancelled", "user")


async def test_input_goes_in_while_it_runs(call: Caller) -> None:
    started = await call("exec", argv=["cat"], interactive=True, wait_s=0)
    run_id = started["run_id"]
    assert (await call("send_input", run_id=run_id, text="one\n"))["accepted"]
    assert (await call("send_input", run_id=run_id, text="zwei ü\n", eof=True))["accepted"]
    assert (await call("wait", run_id=run_id))["output"] == "one\nzwei ü\n"
    late = await call("send_input", run_id=run_id, text="three\n")
    assert not late["accepted"] or late.is_error


async def test_input_with_the_command(call: Caller) -> None:
    assert (await call("exec", argv=["cat"], input="all of it"))["output"] == "all of it"
    refused = await call("send_input", run_id=(await call("exec", argv=["cat"]))["run_id"], text="x")
    assert refused.is_error
    assert "has no stdin to write to" in refused.text
    assert refused.text.endswith("start it with interactive or pty: true")


async def test_a_terminal(call: Caller) -> None:
    answer = await call("exec", command="test -t 0 && test -t 1 && echo terminal", pty=True)
    assert (answer.verdict, answer["output"]) == (("succeeded", "exit", 0), "terminal\r\n")


async def test_long_output_is_cut_and_says_so(call: Caller) -> None:
    line = "0123456789abcdef"
    answer = await call("exec", command=f"for i in $(seq 1000); do echo {line}; done", max_bytes=102)
    assert answer["output_bytes"] == 17000
    assert (answer["truncated"], answer["output_offset"]) == (True, 16898)
    assert answer["output"] == f"{line}\n" * 6
    whole, offset, pages = "", 0, 0
    while not (page := await call("output", run_id=answer["run_id"], offset=offset, max_bytes=4096))["complete"]:
        assert page["more"]
        assert page["offset"] == offset
        whole, offset, pages = whole + page["text"], page["next_offset"], pages + 1
    assert whole + page["text"] == f"{line}\n" * 1000
    assert pages == 4


async def test_reading_waits_for_what_is_not_there_yet(call: Caller, tmp_path: Path) -> None:
    gate = fifo(tmp_path, "gate")
    run_id = (await call("exec", command=f"echo one; cat {gate} >&2; exec sleep 600", wait_s=0))["run_id"]
    assert (await call("output", run_id=run_id, wait_s=BOUND_S))["text"] == "one\n"
    writer = await open_for_writing(gate)
    pages = []
    async with anyio.create_task_group() as group:

        async def read() -> None:
            pages.append(await call("output", run_id=run_id, offset=4, wait_s=BOUND_S))

        group.start_soon(read)
        os.write(writer, b"two\n")
    assert (pages[0]["text"], pages[0]["offset"]) == ("two\n", 4)
    os.close(writer)
    nothing = await call("output", run_id=run_id, offset=8, wait_s=0.1)
    assert (nothing["text"], nothing["next_offset"], nothing["complete"]) == ("", 8, False)
    await ended(call, run_id)


async def test_output_over_the_servers_limit_ends_the_run(call: Caller) -> None:
    answer = await call("exec", argv=["yes"], max_bytes=10)
    assert (answer["status"], answer["cause"], answer.is_error) == ("failed", "limit", True)
    assert answer["output_bytes"] == 4 << 20


async def test_one_stream(call: Caller) -> None:
    answer = await call("exec", command="echo one; echo two >&2; echo three")
    page = await call("output", run_id=answer["run_id"], stream="stderr")
    assert (page["text"], page["total_bytes"]) == ("two\n", 4)
    assert (await call("output", run_id=answer["run_id"], stream="stdout", offset=4))["text"] == "three\n"


async def test_the_newest_come_first_by_the_page(call: Caller) -> None:
    ids = [(await call("exec", argv=["true"]))["run_id"] for _ in range(3)]
    first = await call("list", which="all", limit=2)
    assert [run["run_id"] for run in first["runs"]] == [ids[2], ids[1]]
    second = await call("list", which="all", limit=1, cursor=first["cursor"])
    assert [run["run_id"] for run in second["runs"]] == [ids[0]]
    assert "is no cursor" in (await call("list", which="all", cursor="x")).text


async def test_errors_say_what_to_do(call: Caller) -> None:
    unknown = await call("poll", run_id="01zzzzzzzzzzzzzzzzzz")
    assert "there is no run '01zzzzzzzzzzzzzzzzzz' here: `list` shows" in unknown.text
    assert "give either command or argv" in (await call("exec")).text
    assert "give either command or argv" in (await call("exec", command="true", argv=["true"])).text
    assert "argv is empty" in (await call("exec", argv=[])).text
    assert "ask for at most 3600 (1h)" in (await call("exec", command="true", timeout_s=3601)).text
    assert "bytes are too much input" in (await call("exec", argv=["cat"], input="x" * 70000)).text
    assert "wait_s" in (await call("exec", argv=["true"], wait_s=-1)).text
    for answer in (unknown, await call("exec")):
        assert answer.is_error
        assert answer.data == {}


WRONG: list[tuple[str, dict[str, Any], str]] = [
    (
        "exec",
        {"command": "true", "timeout": 0.5},
        "there is no argument 'timeout': exec takes command, argv, cwd, env,",
    ),
    ("exec", {"argv": ["true"], "a\nb": 1, "ctx": 2}, "there is no argument 'a\\nb' and no 'ctx': exec takes command,"),
    ("list", {"which": 1, "all": True}, "there is no argument 'all': list takes which, limit, cursor"),
    ("exec", {"command": "true", "timeout_s": -1}, "timeout_s cannot be -1: give a value that is greater than 0"),
    (
        "exec",
        {"command": "true", "wait_s": 601},
        "wait_s cannot be 601: give a value that is less than or equal to 600",
    ),
    ("exec", {"command": "true", "wait_s": 10**400}, "wait_s cannot be this: give a value that is "),
    ("exec", {"argv": [1, 2]}, "argv.0 cannot be this: give a value that is a valid string; 1 more are wrong"),
    ("exec", {"argv": ["true"], "env": {"PIN": 7391}}, "env.PIN cannot be this: give a value that is a valid string"),
    ("poll", {}, "run_id is missing: give it"),
    ("output", {"run_id": "x", "stream": "all"}, "stream cannot be this: give a value that is 'both', 'stdout' or"),
]


@pytest.mark.parametrize(("tool", "arguments", "said"), WRONG)
async def test_wrong_arguments_are_told_in_one_line(
    call: Caller, tool: str, arguments: dict[str, Any], said: str
) -> None:
    before = [run["run_id"] for run in (await call("list", which="all"))["runs"]]
    answer = await call(tool, **arguments)
    assert (answer.is_error, answer.data) == (True, {})
    assert answer.text.startswith(f"Error executing tool {tool}: {said}")
    assert len(answer.text.splitlines()) == 1
    assert "http" not in answer.text
    assert "7391" not in answer.text
    assert [run["run_id"] for run in (await call("list", which="all"))["runs"]] == before  # nothing was started


async def test_every_tool_refuses_what_it_does_not_know(call: Caller) -> None:
    for tool in (await call.client.list_tools()).tools:
        assert tool.input_schema["additionalProperties"] is False
        answer = await call(tool.name, nonsense=1)
        known = ", ".join(tool.input_schema["properties"])
        assert answer.is_error
        assert answer.text.endswith(f"there is no argument 'nonsense': {tool.name} takes {known}")


async def test_too_many_runs_at_once(call: Caller) -> None:
    started = [(await call("exec", argv=["sleep", "600"], wait_s=0))["run_id"] for _ in range(4)]
    refused = await call("exec", argv=["true"])
    assert "4 runs are live, and this server allows 4: wait for one or cancel one" in refused.text
    assert (await ended(call, started.pop())).verdict[:2] == ("cancelled", "user")
    assert (await call("exec", argv=["true"])).verdict == ("succeeded", "exit", 0)
    for run_id in started:
        await ended(call, run_id)


async def test_commands_start_only_where_they_may(call: Caller, allowed: Path, tmp_path: Path) -> None:
    (allowed / "inside").mkdir()
    (allowed / "way-out").symlink_to(tmp_path)
    (allowed / "way-back").symlink_to(allowed / "inside")
    assert (await call("exec", argv=["pwd"], cwd="inside"))["output"] == f"{allowed}/inside\n"
    assert (await call("exec", argv=["pwd"], cwd="way-back"))["output"] == f"{allowed}/inside\n"
    for outside in ("/", "..", str(tmp_path), f"{allowed}/../", "way-out", f"{allowed}/way-out", f"{allowed}-not"):
        answer = await call("exec", argv=["pwd"], cwd=outside)
        assert "commands may not start in" in answer.text, outside
        assert answer.is_error
    assert "there is no directory 'nowhere'" in (await call("exec", argv=["pwd"], cwd="nowhere")).text
    # The control: a comparison of names alone would accept the way out.
    assert os.path.commonpath((allowed / "way-out", allowed)) == str(allowed)


async def test_environment(call: Caller, server: HttpServer) -> None:
    answer = await call("exec", command='echo "$COLOUR"', env={"COLOUR": "secret-green"})
    assert answer["output"] == "secret-green\n"
    assert "secret-green" not in str(report_of(server.state, answer["run_id"]))


async def test_who_asks_is_told_that_the_command_asks(call: Caller) -> None:
    started = await call("exec", argv=["sh", "-c", "printf 'go on? '; read answer; sleep 600"], pty=True, wait_s=0)
    run_id = started["run_id"]
    answer = started
    with anyio.fail_after(BOUND_S):
        while not answer["waiting_for_input"]:  # asked again: no event says that the command has fallen asleep
            answer = await call("poll", run_id=run_id)
    assert "it is waiting for input now: `send_input` answers it" in answer.text
    assert (await call("send_input", run_id=run_id, text="y\n"))["accepted"]
    with anyio.fail_after(BOUND_S):
        while answer["waiting_for_input"]:
            answer = await call("poll", run_id=run_id)
    assert "waiting for input" not in answer.text
    assert (await ended(call, run_id))["waiting_for_input"] is None


async def test_changes_tell_each_end_once(call: Caller) -> None:
    while (before := await call("changes"))["runs"]:  # what other tests did
        for run in before["runs"]:
            await ended(call, run["run_id"])
    assert before.text == "nothing has changed"
    failed = await call("exec", command="seq 2000; echo last words; exit 3")
    live = await call("exec", command="echo listening; exec sleep 600", wait_s=0.5)
    answer = await call("changes")
    assert [run["run_id"] for run in answer["runs"]] == [live["run_id"], failed["run_id"]]
    told = answer["runs"][1]
    assert (told["status"], told["cause"], told["exit_code"]) == ("failed", "exit", 3)
    assert told["output"].endswith("2000\nlast words\n")
    assert told["truncated"]
    assert f"- run {failed['run_id']}: failed (exited with code 3) after " in answer.text
    assert not answer.is_error  # the call did what it was asked
    again = await call("changes")
    assert [run["run_id"] for run in again["runs"]] == [live["run_id"]]
    assert again["since"] is not None
    await ended(call, live["run_id"])
