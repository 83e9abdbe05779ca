"""The examples of docs/containers.md do what the page says, with a podman that has a storage of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from .. import test_readme
from ..support.documented import prints_what_it_says, programs

if TYPE_CHECKING:
    from pathlib import Path

    from ..support.containers import Containers
    from ..test_readme import Block

pytestmark = pytest.mark.root

SESSIONS = [
    block for block in test_readme.blocks(test_readme.ROOT / "docs" / "containers.md") if block.language == "console"
]


@pytest.fixture(autouse=True)
def podman(containers: Containers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reader's podman, and an image of the reader's."""
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "podman"
    program.write_text(containers.script())
    program.chmod(0o755)
    containers.podman("tag", "localhost/holdfast-test", "localhost/agents")
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")


@pytest.mark.parametrize("block", SESSIONS, ids=str)
def test_console(block: Block, tmp_path: Path) -> None:
    assert len(test_readme.exchanges(block.text)) > 3
    test_readme.test_console(block, tmp_path)


@pytest.mark.parametrize("block", programs("containers.md"), ids=str)
def test_python(block: Block, tmp_path_factory: pytest.TempPathFactory) -> None:
    prints_what_it_says(block, tmp_path_factory.mktemp("program"))
