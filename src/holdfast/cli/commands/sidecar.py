"""`holdfast sidecar`: the library for programs in other languages."""

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
    "Serve one program in another language: JSON-RPC 2.0, one JSON per line, on stdin and stdout.",
    (Option("--schema", None, "print the schema of the protocol, and end"),),
    act,
    "Logs go to stderr. Runs end with the program that started the sidecar, unless their lifetime says otherwise.\n",
)
