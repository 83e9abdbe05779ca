"""A sidecar and its host's side of the conversation; every answer and notification is checked against the schema."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
import time
from base64 import b64decode, b64encode
from collections import deque
from typing import TYPE_CHECKING, Any

import jsonschema  # type: ignore[import-untyped,unused-ignore]

from holdfast.sidecar.schema import schema

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

BOUND_S = 60.0
COMMAND = [sys.executable, "-m", "holdfast.cli.main", "sidecar"]


class RpcError(Exception):
    """An answer that is an error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(f"{error['code']}: {error['message']}")
        self.code: int = error["code"]
        self.data: dict[str, Any] = error.get("data", {})


def check(part: dict[str, Any], value: Any) -> None:
    """ValidationError if a value does not match the schema file."""
    if id(part) not in _VALIDATORS:
        _VALIDATORS[id(part)] = jsonschema.Draft202012Validator({**part, "$defs": schema()["$defs"]})
    _VALIDATORS[id(part)].validate(value)


_VALIDATORS: dict[int, Any] = {}  # by identity: the parts of the one schema that is loaded


class Host:
    """The host of one sidecar. Not reading is part of many tests: it reads only when a test asks for something."""

    def __init__(self, *arguments: str, initialize: bool = True, **options: Any) -> None:
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.process = subprocess.Popen([*COMMAND, *arguments], **{**pipes, **options})
        self.notified: list[dict[str, Any]] = []
        self.answers: dict[Any, Any] = {}
        self._methods: dict[Any, str] = {}
        self._last = 0
        self._begun = b""
        self._lines: deque[bytes] = deque()
        if initialize:
            self.call("initialize", protocols=[1], client={"name": "tests"})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_input()
        if kind is not None:
            self.process.kill()
        for stream in (self.process.stdout, self.process.stderr):
            if stream is not None:
                stream.close()
        code = self.process.wait(BOUND_S)
        assert kind is not None or code == 0, f"the sidecar ended with {code}"

    # Sending.

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)
        self.process.stdin.flush()

    def send(self, method: str, **params: Any) -> int:
        """Call without waiting for the answer; its id."""
        return self.send_together((method, params))[0]

    def send_together(self, *calls: tuple[str, dict[str, Any]]) -> list[int]:
        """Several calls in one write, so that they are there at the same time; their ids."""
        messages: list[dict[str, Any]] = []
        for method, params in calls:
            self._last += 1
            self._methods[self._last] = method
            messages.append({"jsonrpc": "2.0", "id": self._last, "method": method, "params": params})
        self.write(b"".join(map(line, messages)))
        return [message["id"] for message in messages]

    def notify(self, method: str, **params: Any) -> None:
        self.write(line({"jsonrpc": "2.0", "method": method, "params": params}))

    def close_input(self) -> None:
        if self.process.stdin is not None:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass

    # Receiving.

    def call(self, method: str, **params: Any) -> Any:
        """Call and return the result; RpcError if the answer is an error."""
        return self.answer(self.send(method, **params))

    def answer(self, number: int) -> Any:
        """The result of an earlier call."""
        while number not in self.answers:
            self.hear()
        answer = self.answers.pop(number)
        if "error" in answer:
            assert str(answer["error"]["code"]) in schema()["errors"]
            check(schema()["$defs"]["Error"], answer["error"])
            raise RpcError(answer["error"])
        if number in self._methods:
            check(schema()["methods"][self._methods[number]]["result"], answer["result"])
        return answer["result"]

    def hear(self) -> Any:
        """The next line. AssertionError if none comes, or if it is not JSON."""
        message = json.loads(self.next_line())
        if isinstance(message, dict) and "method" in message:
            check(schema()["notifications"][message["method"]]["params"], message["params"])
            self.notified.append(message)
        elif isinstance(message, dict):
            self.answers[message["id"]] = message
        return message

    def next_line(self, within_s: float = BOUND_S) -> bytes:
        """The next line as it is; empty at the end."""
        assert self.process.stdout is not None
        fd, end = self.process.stdout.fileno(), time.monotonic() + within_s
        while not self._lines:
            ready, _, _ = select.select([fd], [], [], max(0.0, end - time.monotonic()))
            assert ready, "the sidecar says nothing"
            data = os.read(fd, 1 << 20)
            if not data:
                return b""
            *complete, self._begun = (self._begun + data).split(b"\n")
            self._lines.extend(complete)
        return self._lines.popleft()

    def is_silent(self) -> bool:
        """Whether there is nothing to read now."""
        assert self.process.stdout is not None
        return not self._lines and not self._begun and not select.select([self.process.stdout], [], [], 0)[0]

    def output(self, run_id: str, stream: str | None = None) -> bytes:
        """The output of a run that has arrived so far."""
        parts = [it["params"] for it in self.notified if it["method"] == "output" and it["params"]["run_id"] == run_id]
        return b"".join(b64decode(part["data"]) for part in parts if stream in (None, part["stream"]))

    def until_output(self, run_id: str, text: bytes) -> bytes:
        """Read until the output contains this."""
        while text not in (seen := self.output(run_id)):
            self.hear()
        return seen

    def until_end(self, run_id: str) -> bytes:
        """Read until the output of a run is over."""
        while not any(it["method"] == "output.end" and it["params"]["run_id"] == run_id for it in self.notified):
            self.hear()
        return self.output(run_id)

    def memory_kib(self) -> int:
        """The largest memory of the sidecar so far."""
        with open(f"/proc/{self.process.pid}/status") as status:
            return next(int(text.split()[1]) for text in status if text.startswith("VmHWM"))


def line(message: Any) -> bytes:
    """A message as the sidecar reads it."""
    return json.dumps(message).encode() + b"\n"


def base64(data: bytes) -> str:
    """Bytes in the form of the wire."""
    return b64encode(data).decode()
