"""`holdfast sidecar`: serve the library to a program in another language, on stdin and stdout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..parsing.command import Command, no_words, put
from ..parsing.options import Option

if TYPE_CHECKING:
    from ..parsing.options import CommandLine


def act(given: CommandLine) -> int:
    no_words(given, "sidecar")
    if given.has("--schema"):
        from importlib.resources import files

        put(files("holdfast.sidecar").joinpath("schema.json").read_bytes())
        return 0
    from ...sidecar.server import main

    return main(given.last("--state-dir"))


COMMAND = Command(
    "sidecar [OPTIONS]",
    "Serve one program in another language: JSON-RPC 2.0 on stdin and stdout, one JSON text per line.",
    (Option("--schema", None, "print the JSON schema of the protocol, and exit"),),
    act,
    "Logs go to stderr. Runs end with the program that started the sidecar, unless their lifetime says otherwise.\n",
)
