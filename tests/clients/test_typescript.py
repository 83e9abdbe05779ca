"""The TypeScript client, built and run with the Node there is: its own tests, its manual's examples, the swap."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ..support.daemons import daemon, end_daemon
from ..support.typescript import PACKAGE, built
from ..support.web import port_of

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "typescript.md"
EXAMPLES = re.findall(r"^```ts\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
BOUND_S = 100


@pytest.fixture(scope="session")
def package() -> Path:
    """The package, built now: no built file is kept, and the types come from this tree."""
    return built()


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    command = f"{sys.executable} -m holdfast.cli.main"
    return {**os.environ, "HOLDFAST_COMMAND": command, "HOLDFAST_STATE_DIR": str(tmp_path / "state")}


def node(arguments: list[str], environment: dict[str, str], cwd: Path = PACKAGE) -> str:
    """Run Node and return its output; AssertionError with the whole output if it fails."""
    process = subprocess.Popen(
        ["node", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=cwd,
        start_new_session=True,  # a test that hangs leaves its own children: they are ended with it
    )
    try:
        said, _ = process.communicate(timeout=BOUND_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
    assert process.returncode == 0, said
    return said


def run_tests(name: str, environment: dict[str, str]) -> None:
    said = node(["--test", "--test-reporter=tap", f"dist/test/{name}.test.js"], environment)
    assert re.search(r"^# pass [1-9]", said, re.MULTILINE), said
    assert "# skipped 0\n" in said


@pytest.mark.parametrize("name", ["run", "fixtures", "exits", "events"])
def test_the_client(name: str, package: Path, environment: dict[str, str]) -> None:
    assert (package / "dist" / "test" / f"{name}.test.js").exists()
    run_tests(name, environment)


def test_every_test_of_the_package_is_run(package: Path) -> None:
    found = {path.name.removesuffix(".test.ts") for path in (package / "test").glob("*.test.ts")}
    assert found == {"run", "fixtures", "exits", "events", "daemon", "start"}


def test_no_dependencies_and_nothing_built_is_kept(package: Path) -> None:
    import json

    described = json.loads((package / "package.json").read_text())
    assert "dependencies" not in described
    assert set(described["devDependencies"]) == {"typescript", "@types/node"}
    kept = subprocess.run(["git", "ls-files", "."], cwd=package, capture_output=True, text=True, check=True).stdout
    assert not re.findall(r"^(?:dist|node_modules|src/generated)/|package-lock", kept, re.MULTILINE)


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A daemon, at the place where the tests of the package look for it."""
    with daemon(tmp_path / "daemon", "--listen", "127.0.0.1:0") as running:
        yield {
            "HOLDFAST_TEST_SOCKET": str(running.state_dir / "holdfast.sock"),
            "HOLDFAST_TEST_URL": f"http://127.0.0.1:{port_of(running)}",
            "HOLDFAST_TEST_TOKEN_TEXT": (running.state_dir / "token").read_text().strip(),
        }


@pytest.mark.usefixtures("package")
def test_the_client_of_the_daemon(environment: dict[str, str], serving: dict[str, str]) -> None:
    run_tests("daemon", {**environment, **serving})


@pytest.mark.usefixtures("package")
def test_a_daemon_on_demand(environment: dict[str, str]) -> None:
    run_tests("start", environment)
    state = Path(environment["HOLDFAST_STATE_DIR"])
    assert (state / "daemon.log").read_text().count("ready") == 1
    end_daemon(state)


@pytest.mark.parametrize("number", range(1, len(EXAMPLES) + 1))
@pytest.mark.usefixtures("package")
def test_what_the_manual_shows(number: int, environment: dict[str, str], serving: dict[str, str]) -> None:
    """The comment behind a `console.log` is its output."""
    expected = re.findall(r"console\.log\(.*\); +// (.*)$", EXAMPLES[number - 1], re.MULTILINE)
    place = {"HOLDFAST_STATE_DIR": str(Path(serving["HOLDFAST_TEST_SOCKET"]).parent)}
    tcp = {"HOLDFAST_URL": serving["HOLDFAST_TEST_URL"], "HOLDFAST_TOKEN": serving["HOLDFAST_TEST_TOKEN_TEXT"]}
    said = node([f"dist/test/generated/example-{number}.js"], {**environment, **place, **tcp})
    assert said.splitlines() == expected


def test_the_swap_behind_a_flag(package: Path, environment: dict[str, str], tmp_path: Path) -> None:
    """With the flag the process that a tool left is gone; without it, which is the control, it is still alive."""
    example = tmp_path / "swap"
    shutil.copytree(
        ROOT / "examples" / "typescript-swap", example, ignore=shutil.ignore_patterns("node_modules", "dist")
    )
    modules = example / "node_modules"
    modules.mkdir()
    (modules / "holdfast").symlink_to(package)
    (modules / "@types").symlink_to(package / "node_modules" / "@types")
    node([str(package / "node_modules" / "typescript" / "bin" / "tsc")], environment, example)
    without = re.fullmatch(r"timeout; process (\d+) is left\n", node(["dist/main.js"], environment, example))
    assert without is not None
    os.kill(int(without[1]), signal.SIGKILL)
    flag = {"HARNESS_RUNNER": "holdfast"}
    assert re.fullmatch(r"timeout; process \d+ is gone\n", node(["dist/main.js"], {**environment, **flag}, example))
