"""Webhooks: through the outbox, signed, tried again, at least once; with a real receiver and a clock of our own."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import stat
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from holdfast.daemon.events.event_log import EventLog
from holdfast.daemon.store.store import Store
from holdfast.daemon.webhooks import signing
from holdfast.daemon.webhooks.deliveries import Deliveries
from holdfast.daemon.webhooks.poster import Poster, origin_of
from holdfast.values.errors import JournalError, RunNotFoundError, SpecError, StateError
from tests.support.publishing import published

from ...support.receivers import BROKEN, ENDLESS, OK, SILENCE, receiver

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

pytestmark = pytest.mark.anyio
REPORT = {"run_id": "a", "status": "timed_out", "cause": "deadline", "state": "stopping"}


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class Skipping:
    """A clock that goes forward when a task waits for it."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.waited: list[float] = []

    def time(self) -> float:
        return self.now

    async def wait(self, event: asyncio.Event, timeout_s: float | None) -> None:
        if timeout_s is None or event.is_set():
            await event.wait()
            return
        self.waited.append(timeout_s)
        self.now += timeout_s


class Watched(Deliveries):
    """A store that says when something was recorded, and keeps its warnings."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.changes: asyncio.Queue[str] = asyncio.Queue()
        self.warnings: list[str] = []
        super().__init__(*arguments, warn=self._keep, **options)

    async def _record(self, how: str, run_id: str, **values: Any) -> None:
        await super()._record(how, run_id, **values)
        self.changes.put_nowait(run_id)

    def _keep(self, text: str) -> None:
        self.warnings.append(text)
        self.changes.put_nowait(text)


class Outbox(NamedTuple):
    store: Store
    log: EventLog
    deliveries: Watched
    clock: Skipping

    async def submit(self, run_id: str, url: str) -> None:
        await self.store.write(lambda connection: self.deliveries.insert(connection, run_id, url))

    async def shown(self, run_id: str) -> dict[str, Any]:
        found = await self.deliveries.show(run_id)
        assert found is not None
        return found

    async def ended(self, run_id: str) -> dict[str, Any]:
        """The state of a delivery when it is over."""
        async with asyncio.timeout(60):
            while (found := await self.shown(run_id))["ended_at"] is None:
                await self.deliveries.changes.get()
            return found


@asynccontextmanager
async def outbox(directory: Path, *, started: bool = True, timeout_s: float = 30.0) -> AsyncIterator[Outbox]:
    store = Store.open(str(directory / "daemon.sqlite"))
    log = EventLog(store)
    clock = Skipping()
    secret_path = str(directory / "webhook-secret")
    poster = Poster(timeout_s)
    deliveries = Watched(store, log, secret_path=secret_path, poster=poster, clock=clock)
    await log.start()
    if started:
        await deliveries.start()
    try:
        yield Outbox(store, log, deliveries, clock)
    finally:
        await deliveries.stop(last_tries_s=0)
        await log.stop()
        store.close()


async def test_a_verdict_is_posted_signed_and_once(tmp_path: Path) -> None:
    async with receiver() as there, outbox(tmp_path) as box:
        await box.submit("a", there.url)
        assert (await box.shown("a"))["state"] == "waiting"
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        got = await there.next()
        shown = await box.ended("a")
        assert (shown["state"], shown["tries"], shown["last_error"]) == ("delivered", 1, None)
        assert got.path == "/hook?token=very-secret"
        assert got.headers["content-type"] == "application/json"
        said = json.loads(got.body)
        assert (said["type"], said["data"]) == ("run.verdict", {"run_id": "a", "report": REPORT})
        assert got.headers["webhook-id"] == shown["delivery_id"] == "a.verdict"
        assert got.headers["webhook-timestamp"] == str(int(box.clock.now))
        assert is_signed_with(got.headers, got.body, (tmp_path / "webhook-secret").read_text())
        await published(box.log, "run.verdict", "a", {"report": REPORT})  # as recovery might
        await box.deliveries.verdict("a", {**REPORT, "status": "succeeded"})
        assert await box.ended("a") == shown
        assert len(there.received) == 1
        assert (box.deliveries.delivered, box.deliveries.tries, box.deliveries.pending) == (1, 1, 0)


def is_signed_with(headers: dict[str, str], body: bytes, secret: str) -> bool:
    """Check a signature as a receiver would, from the manual alone."""
    key = base64.b64decode(secret.strip().removeprefix("whsec_"))
    signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
    wanted = "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return hmac.compare_digest(headers["webhook-signature"], wanted)


async def test_the_signature_is_of_this_body_and_this_secret(tmp_path: Path) -> None:
    secret = signing.load_secret(str(tmp_path / "one"))
    other = (tmp_path / "one").read_text()
    headers = {"webhook-id": "a", "webhook-timestamp": "7", "webhook-signature": signing.sign(secret, "a", 7, b"x")}
    assert is_signed_with(headers, b"x", other)
    assert not is_signed_with(headers, b"y", other)
    assert not is_signed_with({**headers, "webhook-timestamp": "8"}, b"x", other)
    signing.load_secret(str(tmp_path / "two"))
    assert not is_signed_with(headers, b"x", (tmp_path / "two").read_text())


async def test_a_run_without_a_webhook_posts_nothing(tmp_path: Path) -> None:
    async with outbox(tmp_path) as box:
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        assert await box.deliveries.show("a") is None
        assert not (tmp_path / "webhook-secret").exists()


async def test_five_tries_with_more_and_more_time_between_them(tmp_path: Path) -> None:
    async with receiver(BROKEN) as there, outbox(tmp_path) as box:
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        shown = await box.ended("a")
        assert (shown["state"], shown["tries"], shown["last_error"]) == ("failed", 5, "answered 500")
        assert box.clock.waited == [1.0, 3.0, 10.0, 30.0]
        assert len({(got.headers["webhook-id"], got.body) for got in there.received}) == 1
        assert len({got.headers["webhook-timestamp"] for got in there.received}) == 5
        assert "a: the delivery failed after 5 tries: answered 500" in box.deliveries.warnings[0]
        assert "secret" not in json.dumps([shown, box.deliveries.warnings])


async def test_a_receiver_that_comes_back_gets_it(tmp_path: Path) -> None:
    async with receiver(BROKEN, BROKEN, OK) as there, outbox(tmp_path) as box:
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        shown = await box.ended("a")
        assert (shown["state"], shown["tries"]) == ("delivered", 3)
        assert box.clock.waited == [1.0, 3.0]


async def test_redirects_are_not_followed(tmp_path: Path) -> None:
    async with receiver() as elsewhere:
        away = f"HTTP/1.1 307 Temporary Redirect\r\nLocation: {elsewhere.url}\r\nContent-Length: 0\r\n\r\n".encode()
        async with receiver(away) as there, outbox(tmp_path) as box:
            await box.submit("a", there.url)
            await published(box.log, "run.verdict", "a", {"report": REPORT})
            shown = await box.ended("a")
            assert (shown["state"], shown["last_error"]) == ("failed", "answered 307; redirects are not followed")
        assert elsewhere.received == []


async def test_a_receiver_that_does_not_answer_is_given_up_in_time(tmp_path: Path) -> None:
    async with receiver(SILENCE) as there, outbox(tmp_path, timeout_s=0.05) as box:
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        shown = await box.ended("a")
        assert (shown["state"], shown["tries"], shown["last_error"]) == ("failed", 5, "no answer within 0.05 s")


async def test_the_answers_body_is_not_read(tmp_path: Path) -> None:
    async with receiver(ENDLESS) as there, outbox(tmp_path) as box:
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        assert (await box.ended("a"))["state"] == "delivered"


async def test_nobody_there(tmp_path: Path) -> None:
    async with receiver() as gone:
        url = gone.url
    async with outbox(tmp_path) as box:
        await box.submit("a", url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        shown = await box.ended("a")
        assert (shown["state"], shown["last_error"]) == ("failed", "cannot be reached: ConnectError")


async def test_proxies_of_the_environment_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with receiver() as there, receiver() as proxy, outbox(tmp_path) as box:
        monkeypatch.setenv("HTTP_PROXY", proxy.url)
        monkeypatch.setenv("ALL_PROXY", proxy.url)
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        assert (await box.ended("a"))["state"] == "delivered"
        assert proxy.received == []


async def test_one_receiver_that_hangs_holds_up_no_other(tmp_path: Path) -> None:
    async with receiver(SILENCE) as hung, receiver() as there, outbox(tmp_path) as box:
        for number in range(100):
            await box.submit(f"hung-{number:03}", hung.url)
            box.log.publish("run.verdict", f"hung-{number:03}", {"report": REPORT})
        await hung.next()
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        assert (await box.ended("a"))["state"] == "delivered"
        assert len(hung.received) <= 4


async def test_event_and_outbox_are_one_transaction(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with outbox(tmp_path) as box:
        await box.submit("a", "http://127.0.0.1:1/")
        written = box.deliveries.write

        def fail(*arguments: Any) -> None:
            written(*arguments)
            raise StateError("the daemon dies here")

        monkeypatch.setattr(box.deliveries, "write", fail)
        with pytest.raises(StateError):
            await published(box.log, "run.verdict", "a", {"report": REPORT})
        assert (await box.shown("a"))["state"] == "waiting"
        monkeypatch.undo()
        assert await published(box.log, "run.verdict", "a", {"report": REPORT}) == 1


async def test_a_crash_after_the_answer_posts_once_more_with_the_same_id(tmp_path: Path) -> None:
    async with receiver() as there:
        async with outbox(tmp_path) as box:
            await box.submit("a", there.url)

            async def crash(*_: Any, **__: Any) -> None:
                await asyncio.Event().wait()  # the answer is there, its record never comes

            box.deliveries._record = crash  # type: ignore[method-assign]  # noqa: SLF001
            await published(box.log, "run.verdict", "a", {"report": REPORT})
            first = await there.next()
        async with outbox(tmp_path) as box:
            second = await there.next()
            assert (await box.ended("a"))["state"] == "delivered"
        assert (first.headers["webhook-id"], first.body) == (second.headers["webhook-id"], second.body)


async def test_a_retry_that_is_due_after_a_restart_is_made(tmp_path: Path) -> None:
    async with receiver(BROKEN, OK) as there:
        async with outbox(tmp_path, started=False) as box:
            await box.submit("a", there.url)
            await published(box.log, "run.verdict", "a", {"report": REPORT})
            assert (await box.shown("a"))["state"] == "pending"
            assert there.received == []
        async with outbox(tmp_path) as box:
            shown = await box.ended("a")
            assert (shown["state"], shown["tries"]) == ("delivered", 2)


async def test_what_is_due_at_the_end_is_tried_once(tmp_path: Path) -> None:
    async with receiver() as there, outbox(tmp_path) as box:
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        await box.deliveries.stop()  # before the poster had a chance to look
        assert (await box.shown("a"))["state"] == "delivered"


async def test_a_verdict_that_nobody_saw_is_found_at_recovery(tmp_path: Path) -> None:
    """The daemon died between the verdict and its event; meanwhile one run was pruned and one cannot be read."""
    async with receiver() as there:
        async with outbox(tmp_path) as box:
            for run_id in ("a", "broken", "pruned", "running"):
                await box.submit(run_id, there.url)
        async with outbox(tmp_path) as box:

            async def report_of(run_id: str) -> dict[str, Any]:
                if run_id == "pruned":
                    raise RunNotFoundError("there is no such run", run_id=run_id)
                if run_id == "broken":
                    raise JournalError("the journal is damaged", run_id=run_id)
                return {**REPORT, "run_id": run_id, "status": None if run_id == "running" else "succeeded"}

            assert await box.deliveries.recover(report_of) == 1
            assert json.loads((await there.next()).body)["data"]["report"]["status"] == "succeeded"
            assert (await box.ended("a"))["state"] == "delivered"
            assert (await box.ended("pruned"))["last_error"] == "the run is not there any more"
            assert (await box.shown("running"))["state"] == "waiting"
            assert (await box.shown("broken"))["state"] == "waiting"
            assert "broken" in box.deliveries.warnings[0]


async def test_a_verdict_that_could_not_be_stored_is_found_when_there_is_room_again(tmp_path: Path) -> None:
    """A full disk at the verdict: the event is found later without a restart of the daemon."""
    async with receiver() as there, outbox(tmp_path) as box:

        async def report_of(run_id: str) -> dict[str, Any]:
            return {**REPORT, "run_id": run_id, "filling": "x" * 100_000}

        assert await box.deliveries.recover(report_of) == 0  # at the daemon's start
        await box.submit("b", there.url)
        await box.store.write(lambda connection: connection.execute("PRAGMA max_page_count = 1").fetchall())
        with pytest.raises(StateError, match="full"):
            await published(box.log, "run.verdict", "b", {"report": await report_of("b")})
        assert (await box.shown("b"))["state"] == "waiting"
        await make_room(box.store)
        assert (await box.ended("b"))["state"] == "delivered"


async def make_room(store: Store) -> None:
    """Share a transaction with attempts that fail, and then fail with them."""
    while True:
        try:
            await store.write(lambda connection: connection.execute("PRAGMA max_page_count = 1000000").fetchall())
        except StateError:
            continue
        return


async def test_what_is_over_is_pruned_after_a_while(tmp_path: Path) -> None:
    async with receiver() as there, outbox(tmp_path) as box:
        for run_id in ("a", "b"):
            await box.submit(run_id, there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        await box.ended("a")
        assert await box.deliveries.prune(keep_s=60) == 0
        box.clock.now += 61
        assert await box.deliveries.prune(keep_s=60) == 1
        assert await box.deliveries.show("a") is None
        assert (await box.shown("b"))["state"] == "waiting"


async def test_a_secret_that_cannot_be_used_is_said_and_tried_again(tmp_path: Path) -> None:
    (tmp_path / "webhook-secret").write_text("short\n")
    (tmp_path / "webhook-secret").chmod(0o600)
    async with receiver() as there, outbox(tmp_path) as box:
        await box.submit("a", there.url)
        await published(box.log, "run.verdict", "a", {"report": REPORT})
        async with asyncio.timeout(60):
            await box.deliveries.changes.get()
        assert "holds no webhook secret" in box.deliveries.warnings[0]
        (tmp_path / "webhook-secret").unlink()
        assert (await box.ended("a"))["state"] == "delivered"


def test_the_secret_is_made_once_and_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "webhook-secret"
    secret = signing.load_secret(str(path))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(secret) == 32
    assert signing.load_secret(str(path)) == secret
    path.chmod(0o640)
    with pytest.raises(StateError, match="others may read"):
        signing.load_secret(str(path))
    assert os.listdir(tmp_path) == ["webhook-secret"]


def test_a_configured_secret_is_text_or_base64() -> None:
    assert signing.decode("whsec_" + base64.b64encode(b"0123456789abcdef").decode(), "x") == b"0123456789abcdef"
    assert signing.decode("any text that is long", "x") == b"any text that is long"
    for wrong in ("", "short", "whsec_", "whsec_not base64 at all!", "whsec_c2hvcnQ="):
        with pytest.raises(StateError):
            signing.decode(wrong, "x")


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("http://localhost/x", "http://localhost:80"),
        ("https://hooks.example.org/a/b?c=d", "https://hooks.example.org:443"),
        ("http://127.0.0.1:8080", "http://127.0.0.1:8080"),
        ("http://[::1]:9/", "http://[::1]:9"),
    ],
)
def test_urls_that_can_be_posted_to(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    "url",
    [
        *("", "x", "/x", "//host/x", "ftp://host/", "file:///etc/passwd", "unix:///run/docker.sock", "javascript:1"),
        *("http://", "http:///x", "http://host:0/", "http://host:99999/", "http://host:x/", "http://[::1/"),
        *("http://user@host/", "http://user:password@host/", "http://ho st/", "http://host/\r\nX: y", "http://höst/"),
        "http://host/" + "x" * 2048,
    ],
)
def test_urls_that_cannot_be_posted_to(url: str) -> None:
    with pytest.raises(SpecError) as caught:
        origin_of(url)
    assert caught.value.field == "on_verdict.url"
    assert "password" not in str(caught.value).replace("user or password", "")
