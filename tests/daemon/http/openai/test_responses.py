"""The OpenAI door, driven by the `openai` package: a response is a run, and says how the run ended."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING, Any

import openai
import pytest

from ....support.agents import listening, token_of, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from openai.types.responses import Response, ResponseStreamEvent

    from ....support.agents import TurnedAgent
    from ....support.daemons import Daemon


def client_of(running: Daemon, **options: Any) -> openai.OpenAI:
    given = {"api_key": token_of(running), "max_retries": 0, **options}
    return openai.OpenAI(base_url=url_of(running, "/openai/v1"), **given)


def run_of(response: Response) -> str:
    return response.id.removeprefix("resp_")


def types(events: list[ResponseStreamEvent]) -> list[str]:
    return [event.type for event in events]


def test_an_answer_and_how_the_run_ended(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        done = client.responses.create(model="echo", input="hello", metadata={"task": "7"})
        assert (done.status, done.output_text, done.error) == ("completed", "you said: hello", None)
        assert (done.model, done.background) == ("echo", False)
        assert done.metadata is not None
        assert (done.metadata["task"], done.metadata["status"], done.metadata["cause"]) == ("7", "succeeded", "exit")
        assert running.report(run_of(done))["labels"]["agent"] == "echo"
        assert client.responses.retrieve(done.id).output_text == "you said: hello"
        assert [model.id for model in client.models.list()][:2] == ["echo", "failing"]
        # The prompt goes to stdin, as long as it likes, and leaves nothing behind.
        long = "a line\n" * 40_000
        assert client.responses.create(model="reader", input=long).output_text == long
        assert os.listdir(state_dir / "prompts") == []
        # Instructions come first; several messages carry their roles.
        messages: Any = [{"role": "user", "content": "one"}, {"role": "assistant", "content": "two"}]
        both = client.responses.create(model="reader", instructions="be brief", input=messages)
        assert both.output_text == "be brief\n\nuser: one\n\nassistant: two"


def test_answers_by_rule(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        assert client.responses.create(model="verbose", input="said last").output_text == "said last"
        typed = client.responses.create(model="typed", input='{"result": [{"text": "deep"}]}')
        assert typed.output_text == "deep"
        plain = client.responses.create(model="typed", input="no JSON")
        assert (plain.status, plain.output_text) == ("completed", "no JSON")
        assert (plain.metadata or {})["answer_problem"] == "the output is not JSON"


def test_a_prompt_is_never_an_option(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        found = client.responses.create(model="echo", input="--version")
        assert found.output_text == "you said:  --version"
        assert running.report(run_of(found))["argv"][-1] == " --version"


@pytest.mark.parametrize(
    ("model", "detail", "output"),
    [
        ("failing", {"status": "failed", "cause": "exit", "exit_code": "3"}, "some\n"),
        ("missing", {"status": "failed", "cause": "spawn"}, ""),
        ("late", {"status": "timed_out", "cause": "deadline"}, "begun\n"),
    ],
)
def test_failures_after_a_restart_too(state_dir: Path, model: str, detail: dict[str, str], output: str) -> None:
    def check(response: Response) -> None:
        assert response.status == "failed"
        assert response.error is not None
        assert response.error.message.startswith(f"{detail['status']} ({detail['cause']}): ")
        assert detail.items() <= (response.metadata or {}).items()
        assert response.output_text == output
        assert all(getattr(item, "status", None) == "incomplete" for item in response.output)

    with listening(state_dir) as running, client_of(running) as client:
        found = client.responses.create(model=model, input="x")
        check(found)
        assert running.wait(run_of(found))["status"] == detail["status"]  # settled: a late exit 0 is on record
        check(client.responses.retrieve(found.id))
    with listening(state_dir) as running, client_of(running) as client:
        check(client.responses.retrieve(found.id))
        check(client.responses.cancel(found.id))  # it is over, and stays as it is


def test_the_deadline_holds_while_no_daemon_lives(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        found = client.responses.create(model="late", input="x", background=True)
        running.until_output(run_of(found), b"begun")
        running.kill()
    with listening(state_dir) as running, client_of(running) as client:
        running.wait(run_of(found), "verdict")
        response = client.responses.retrieve(found.id)
        assert (response.status, (response.metadata or {})["status"]) == ("failed", "timed_out")


def test_background_cancel_and_a_second_cancel_keeps_the_grace(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        found = client.responses.create(model="waiting", input="x", background=True)
        assert found.status in ("queued", "in_progress")
        assert found.background is True
        waiting.say("word")
        running.until_output(run_of(found), b"word")
        assert client.responses.retrieve(found.id).status == "in_progress"
        cancelled = client.responses.cancel(found.id)
        assert (cancelled.status, (cancelled.metadata or {})["cause"]) == ("cancelled", "user")
        assert client.responses.cancel(found.id).status == "cancelled"
        report = running.wait(run_of(found))
        assert report["escalated"] is False
    with listening(state_dir) as running, client_of(running) as client:
        assert client.responses.retrieve(found.id).status == "cancelled"


def test_a_stream_and_the_same_stream_again(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        seen: list[ResponseStreamEvent] = []
        with client.responses.create(model="waiting", input="x", background=True, stream=True) as stream:
            for event in stream:
                seen.append(event)
                if event.type == "response.in_progress":
                    waiting.say("one")
                if event.type == "response.output_text.delta":
                    waiting.say("two" if event.delta == "one " else "end")
        assert types(seen) == [
            "response.created",
            "response.queued",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            "response.output_text.delta",
            "response.output_text.delta",
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert [event.sequence_number for event in seen] == list(range(11))
        last: Any = seen[-1]
        assert last.response.output_text == "one two "
        found = last.response.id
    with listening(state_dir) as running, client_of(running) as client:
        again = list(client.responses.retrieve(found, stream=True))
        assert [event.model_dump() for event in again] == [event.model_dump() for event in seen]
        rest = list(client.responses.retrieve(found, stream=True, starting_after=5))
        assert [event.model_dump() for event in rest] == [event.model_dump() for event in seen[6:]]


def test_a_stream_of_a_failure(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        seen = list(client.responses.create(model="late", input="x", stream=True))
        last: Any = seen[-1]
        assert (last.type, last.response.status, last.response.metadata["status"]) == (
            "response.failed",
            "failed",
            "timed_out",
        )
        never: list[Any] = list(client.responses.create(model="missing", input="x", stream=True))
        assert never[-1].type == "response.failed"
        replayed = list(client.responses.retrieve(never[-1].response.id, stream=True))
        assert types(replayed) == types(never)


def test_a_client_that_leaves_cancels_what_is_not_in_the_background(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        for background in (True, False):
            with client.responses.create(model="waiting", input="x", background=background, stream=True) as stream:
                first: Any = next(iter(stream))
                run_id = run_of(first.response)
                waiting.say("word")
                running.until_output(run_id, b"word")
            if background:
                waiting.say("end")
            assert running.wait(run_id)["status"] == ("succeeded" if background else "cancelled")


def test_the_same_key_is_the_same_response(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        for model in ("echo", "reader"):
            headers = {"Idempotency-Key": model}
            made = [client.responses.create(model=model, input="x", extra_headers=headers) for _ in range(2)]
            assert made[0].id == made[1].id
            assert made[0].output_text == made[1].output_text != ""
            with pytest.raises(openai.ConflictError):
                client.responses.create(model=model, input="y", extra_headers=headers)
        assert os.listdir(state_dir / "prompts") == []


def test_refusals_in_the_words_of_the_api(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        with pytest.raises(openai.NotFoundError) as unknown:
            client.responses.create(model="nobody", input="x")
        assert (unknown.value.code, unknown.value.param) == ("model_not_found", "model")
        with pytest.raises(openai.BadRequestError) as field:
            client.responses.create(model="echo", input="x", temperature=1.0)
        assert (field.value.code, field.value.param) == ("unknown_parameter", "temperature")
        with pytest.raises(openai.BadRequestError) as empty:
            client.responses.create(model="echo", input=" ")
        assert (empty.value.code, empty.value.param) == ("invalid", "input")
        with pytest.raises(openai.BadRequestError) as long:
            client.responses.create(model="echo", input="x" * 200_000)
        assert 'prompt = "stdin"' in long.value.message
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="echo", input=[{"role": "user", "content": [{"type": "input_image"}]}])  # type: ignore[list-item, misc]
        with pytest.raises(openai.BadRequestError):
            client.responses.create(model="echo", input="x", store=False)
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve("resp_nothing")
        with pytest.raises(openai.NotFoundError):
            client.responses.retrieve("../../x")
        plain = running.submit(["true"])["run_id"]
        with pytest.raises(openai.NotFoundError, match="not a run of an agent"):
            client.responses.retrieve(f"resp_{plain}")
        with pytest.raises(openai.NotFoundError):
            client.responses.delete("resp_nothing")


def test_who_may_ask(state_dir: Path) -> None:
    with listening(state_dir) as running:
        for key in ("wrong", token_of(running)[:-1]):
            with client_of(running, api_key=key) as client, pytest.raises(openai.AuthenticationError) as refused:
                client.responses.create(model="echo", input="x")
            assert (refused.value.code, refused.value.type) == ("unauthorized", "authentication_error")
        assert running.request("GET", "/v1/runs").body["runs"] == []


def test_a_full_queue_and_a_draining_daemon(state_dir: Path, waiting: TurnedAgent) -> None:
    options = ("--max-runs", "1", "--queue-limit", "0")
    with listening(state_dir, *options) as running, client_of(running) as client:
        first = client.responses.create(model="waiting", input="x", background=True)
        with pytest.raises(openai.RateLimitError) as full:
            client.responses.create(model="echo", input="x")
        assert full.value.code == "queue-full"
        waiting.say("word")
        running.until_output(run_of(first), b"word")
        running.signal()
        running.until_line("draining")
        with pytest.raises(openai.InternalServerError) as draining:
            client.responses.create(model="echo", input="x")
        assert (draining.value.status_code, draining.value.code) == (503, "draining")
        assert int(draining.value.response.headers["retry-after"]) >= 1
        assert client.responses.retrieve(first.id).status == "in_progress"
        waiting.say("end")
        assert running.exit_code() == 0


def test_a_queued_prompt_survives_the_daemon(state_dir: Path, waiting: TurnedAgent) -> None:
    with listening(state_dir, "--max-runs", "1") as running, client_of(running) as client:
        first = client.responses.create(model="waiting", input="x", background=True)
        queued = client.responses.create(model="reader", input="a long story", background=True)
        assert queued.status == "queued"
        (state_dir / "prompts" / "left-by-a-crash").write_text("nobody's")
        running.kill()
    assert sorted(os.listdir(state_dir / "prompts")) == sorted([run_of(queued), "left-by-a-crash"])
    with listening(state_dir, "--max-runs", "1") as running, client_of(running) as client:
        assert os.listdir(state_dir / "prompts") == [run_of(queued)]
        waiting.say("end")
        running.wait(run_of(first))
        running.wait(run_of(queued))
        assert client.responses.retrieve(queued.id).output_text == "a long story"
        assert os.listdir(state_dir / "prompts") == []


def test_agents_are_read_again_and_old_answers_stay(state_dir: Path) -> None:
    with listening(state_dir) as running, client_of(running) as client:
        old = client.responses.create(model="verbose", input="last")
        settings = (state_dir / "config.toml").read_text().replace("[agents.verbose]", "[agents.renamed]")
        (state_dir / "config.toml").write_text(settings)
        running.signal(signal.SIGHUP)
        running.until_line("settings changed: agents")
        assert client.responses.create(model="renamed", input="other").output_text == "other"
        with pytest.raises(openai.NotFoundError):
            client.responses.create(model="verbose", input="x")
        assert client.responses.retrieve(old.id).output_text == "last"
