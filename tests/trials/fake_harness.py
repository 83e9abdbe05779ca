"""A harness of a few lines that speaks chat completions: it runs a command with a shell and leaves what it leaves.

It stands in for the harnesses of npm where a test is about the trial itself. `rig_in` puts it where a rig would be.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from rigs.harnesses import Rig
from trials.wires.chat import ChatCompletions
from trials.wires.wire import Call

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trials.harnesses.harness import Place

_PROGRAM = """#!{python}
import json, os, subprocess, urllib.request
messages, tools = [], [{{"function": {{"name": "bash"}}}}]
while True:
    body = json.dumps({{"messages": messages, "tools": tools}}).encode()
    request = urllib.request.Request(os.environ["FAKE_URL"] + "/v1/chat/completions", body)
    first = urllib.request.urlopen(request).read().decode().split("data: ")[1]
    delta = json.loads(first)["choices"][0]["delta"]
    if "tool_calls" not in delta:
        break
    command = json.loads(delta["tool_calls"][0]["function"]["arguments"])["command"]
    with open("output", "w+b") as output:  # a file: a daemon that holds stdout keeps nobody waiting
        subprocess.run(["bash", "-c", command], stdout=output, stderr=output, stdin=subprocess.DEVNULL)
        output.seek(0)
        messages.append({{"role": "tool", "content": output.read().decode()}})
"""


class FakeHarness:
    """The fake harness as the trials see one."""

    name = "Fake"
    key = "fake"
    rig = Rig("fake", "1", "fake")
    wire = ChatCompletions()

    def settle(self, place: Place, server: Sequence[str], *, limited: bool) -> dict[str, str]:
        """It has no settings."""
        del server, limited
        return {"FAKE_URL": place.url}

    def command(self, *, resumed: bool) -> list[str]:
        """It knows no resumed session."""
        del resumed
        return [str(self.rig.path)]

    def shell(self, command: str, timeout_s: float | None) -> Call:
        """Its one tool."""
        del timeout_s
        return Call("bash", {"command": command})


def rig_in(directory: Path) -> None:
    """Write the program into a cache of rigs."""
    program = directory / "fake-1" / "node_modules" / ".bin" / "fake"
    program.parent.mkdir(parents=True)
    program.write_text(_PROGRAM.format(python=sys.executable))
    program.chmod(0o755)


if __name__ == "__main__":
    # `fake_harness.py SCENE`: one session, with the findings as JSON. It is a process of its own, as `make trials` is.
    import dataclasses
    import json
    import signal

    from trials.scenes import SCENES
    from trials.session import Session

    from tests.support.processes import become_subreaper

    signal.signal(signal.SIGTERM, signal.default_int_handler)
    become_subreaper()
    rig_in(Path(os.environ["HOLDFAST_RIGS"]))
    scene = next(scene for scene in SCENES if scene.name == sys.argv[1])
    sys.stdout.write(json.dumps(dataclasses.asdict(Session(FakeHarness(), scene, holdfast=False).run())))
