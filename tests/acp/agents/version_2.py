"""An agent of version 2, which the SDK does not have yet; the text of a prompt says what it does."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any


def send(**body: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **body}) + "\n")
    sys.stdout.flush()


def update(**fields: Any) -> None:
    send(method="session/update", params={"sessionId": "s", "update": {"sessionUpdate": "state_update", **fields}})


at_cancel = ""  # the stop reason that a cancel gets; empty: the agent does not listen
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] == "initialize":
        send(id=message["id"], result={"protocolVersion": 2})
    elif message["method"] == "session/prompt":
        word, _space, rest = message["params"]["prompt"][0]["text"].partition(" ")
        if word == "refuse":
            continue
        send(id=message["id"], result={})
        update(state="running")
        at_cancel = (rest or "cancelled") if word == "listen" else ""
        match word:
            case "end":
                update(state="idle", stopReason="end_turn")
            case "exit":
                sys.exit(int(rest))
            case "ignore":
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            case "fork":
                with contextlib.suppress(BlockingIOError):
                    for _ in range(int(rest)):
                        subprocess.Popen(["sleep", "600"])
            case "spin":
                end = time.monotonic() + 60
                while time.monotonic() < end:
                    pass
            case "crash":
                os.kill(os.getpid(), int(rest))
    elif message["method"] == "session/cancel" and at_cancel:
        update(state="idle", stopReason=at_cancel, _meta={"own": 1})
