"""The frame of every Python adapter: read the task, run each command, print the answers, stay until stdin ends."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from conformance.adapters import sandbox
from conformance.task import Answer, decode

if TYPE_CHECKING:
    from collections.abc import Callable

    from conformance.task import Task


def serve(
    run: Callable[[Task, list[str], str], Answer], *, supervises: bool = True, enters_sandbox: bool = False
) -> None:
    """Be an adapter: `run` gets the task, the argv, and a prefix for the names of files that it may write.

    An adapter that does not supervise itself names the supervising process, once it is known. `enters_sandbox`: `run`
    enters the sandbox of a task itself.
    """
    task = decode(sys.argv[1])
    if task.sandboxed and not enters_sandbox:
        sandbox.enter()
    if supervises:
        say({"supervisor": os.getpid()})
    say({"ready": True})
    for number, argv in enumerate(task.runs):
        place = os.path.join(task.directory, str(number))
        begin = time.monotonic()
        try:
            answer = run(task, list(argv), place)
        except Exception as error:  # noqa: BLE001 - whatever a peer raises at its caller is its answer
            answer = Answer("error", note=innermost(error))
        tell(answer, place, time.monotonic() - begin)
    sys.stdin.read()


def innermost(error: BaseException) -> str:
    """The exception itself, without the groups around it."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


def tell(answer: Answer, place: str, seconds: float) -> None:
    """Print the answer for one command; output goes into files, because it may be large."""
    fields: dict[str, Any] = answer._asdict()
    for stream in ("stdout", "stderr"):
        path = Path(f"{place}.{stream}")
        if fields[stream]:
            path.write_bytes(fields[stream])
        fields[stream] = str(path) if path.exists() else None
    say({"answer": {**fields, "seconds": seconds}})


def say(message: dict[str, Any]) -> None:
    """Print one line for the cell that runs this adapter."""
    print(json.dumps(message), flush=True)
