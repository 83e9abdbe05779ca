"""What Holdfast says where Ray is missing or does not answer, and that nobody else pays for Ray."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.ray import Supervisor
from holdfast.values.errors import SpecError

if TYPE_CHECKING:
    from pathlib import Path

MISSING = """
import sys
sys.modules["ray"] = None  # as if it were not installed
import holdfast.ray
try:
    holdfast.ray.Supervisor()
except holdfast.HoldfastError as error:
    print(error)
"""
NO_ANSWER = """
import asyncio, holdfast.ray
async def main():
    async with holdfast.ray.Supervisor(address="127.0.0.1:9"):
        pass
try:
    asyncio.run(main())
except holdfast.HoldfastError as error:
    print(error)
"""


def said(program: str) -> str:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=110).stdout


def test_ray_is_imported_only_by_a_program_that_uses_it() -> None:
    modules = "holdfast, holdfast.ray, holdfast.runs.supervisor, holdfast.cli.main"
    assert said(f"import sys, {modules}; print('ray' in sys.modules)") == "False\n"
    assert said("import sys, ray; print('ray' in sys.modules)") == "True\n"  # the control


def test_without_ray_one_sentence_says_what_to_install() -> None:
    sentence = said(MISSING)
    assert sentence.startswith("Ray is not installed here")
    assert sentence.endswith("pip install 'holdfast[ray]'\n")
    assert sentence.count("\n") == 1


@pytest.mark.xdist_group("ray")
def test_an_address_that_does_not_answer_is_named() -> None:
    sentence = said(NO_ANSWER).splitlines()[-1]
    assert "127.0.0.1:9" in sentence
    assert "ray start --head" in sentence


SERVE = """
import sys
from holdfast.cli.main import main
sys.exit(main(["serve", "--state-dir", sys.argv[1], "--engine", "ray", "--ray-address", "127.0.0.1:9"]))
"""


@pytest.mark.xdist_group("ray")
@pytest.mark.parametrize(
    ("before", "sentence"),
    [("", "no Ray cluster answers at '127.0.0.1:9'"), ("sys.modules['ray'] = None", "Ray is not installed here")],
    ids=["no cluster", "no Ray"],
)
def test_a_daemon_that_cannot_use_ray_says_so_and_does_not_start(tmp_path: Path, before: str, sentence: str) -> None:
    program = SERVE.replace("import sys\n", f"import sys\n{before}\n")
    command = [sys.executable, "-c", program, str(tmp_path / "state")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=110)
    assert done.returncode == 125, done.stderr
    assert sentence in done.stderr.splitlines()[-1]
    assert not (tmp_path / "state" / "holdfast.sock").exists()


@pytest.mark.parametrize("lease", [0, -1, float("inf"), "soon", 1])
def test_a_wrong_lease_is_refused(lease: float) -> None:
    with pytest.raises(SpecError, match="lease is") as caught:
        Supervisor(lease=lease)
    assert caught.value.field == "lease"


@pytest.mark.parametrize("address", ["somewhere", "ray://host:1", "host:port"])
def test_an_address_of_another_form_is_refused(address: str) -> None:
    sentence = said(NO_ANSWER.replace("127.0.0.1:9", address)).splitlines()[-1]
    assert repr(address) in sentence
    assert "HOST:PORT" in sentence
