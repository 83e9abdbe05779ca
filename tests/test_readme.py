"""The documentation is tested: its Python is executed, its sessions are typed, its links are followed.

A Python block is a program of its own; the comment behind a `print` is what it prints. In a console block the lines
after `$ ` are typed into one shell, and the others are what comes back, except that ids, times and process numbers are
those of the day and that `...` stands for anything.
"""

from __future__ import annotations

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from bench import excerpt
from bench import page as bench_page

from conformance import page as conformance_page
from holdfast.cli.parsing.catalogue import COMMANDS
from trials import page as trials_page

ROOT = Path(__file__).parent.parent
# Pages whose examples are complete: other examples depend on the machine or on earlier runs.
PAGES = [ROOT / "README.md", ROOT / "docs" / "library.md"]
LINKED = sorted({*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")})
# Pages made by programs; their tables are as wide as their figures.
GENERATED = {"benchmarks.md", "conformance.md", "projections.md", "reliability.md", "trials.md"}
BOUND_S = 60

# A detached run is in the background, so a reader can be faster than it: here the shell waits for its first output.
SHELL = """
holdfast() {
  case " $* " in
    *" --detach "*)
      started=$("$PYTHON" -m holdfast.cli.main "$@")
      until [ -n "$("$PYTHON" -m holdfast.cli.main logs "$started")" ]; do :; done
      echo "$started" ;;
    *) "$PYTHON" -m holdfast.cli.main "$@" ;;
  esac
}
"""


_DIFFERENT = (
    (r"\b[0-9a-hjkmnp-tv-z]{20}\b", "RUN"),
    (r"\d+s ago +[\d.]+m?s", "WHEN HOW-LONG"),
    (r"\+\d+\.\d+s", "+WHEN"),
    (r"\b(process|user) \d+", r"\1 NUMBER"),
    (r"SIGKILL after [\d.]+m?s", "SIGKILL after THE GRACE"),  # as it was measured
    (r"\d+ process(es)?\b", "COUNT processes"),  # some shells become their last command
)


class Block(NamedTuple):
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> list[Block]:
    """The fenced blocks of a page, with the line each one begins at."""
    text = page.read_text()
    found = re.finditer(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    name = str(page.relative_to(ROOT))
    return [Block(name, text.count("\n", 0, match.start()) + 1, match[1], match[2]) for match in found]


def printed(program: str) -> str:
    """The expected output of a program, from the comments behind its prints."""
    return "".join(f"{match[1]}\n" for match in re.finditer(r"^ *print\(.*\)  +# (.*)$", program, re.MULTILINE))


def exchanges(session: str) -> list[tuple[str, str]]:
    """The commands of a session, each with its answer."""
    return [(command, answer) for command, answer in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", session, re.MULTILINE)]


def plain(text: str) -> str:
    """Text without the parts that differ from run to run; exit codes and requested words stay."""
    for pattern, word in _DIFFERENT:
        text = re.sub(pattern, word, text)
    return text


def agrees(shown: str, seen: str) -> bool:
    """Whether the seen text matches the shown text; a line of `...` stands for any number of lines."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    return doctest.OutputChecker().check_output(plain(shown), plain(seen), flags)


ALL = [block for page in PAGES for block in blocks(page)]
PYTHON = [block for block in ALL if block.language == "python"]
SESSIONS = [block for block in ALL if block.language == "console"]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python(block: Block, tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(block.text)
    command = [sys.executable, "-W", "error", str(program)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=BOUND_S, check=False)
    assert (done.returncode, done.stderr) == (0, ""), f"{block}\n{done.stderr}"
    assert agrees(printed(block.text), done.stdout), f"{block} prints\n{done.stdout}"


@pytest.mark.parametrize("block", SESSIONS, ids=str)
def test_console(block: Block, tmp_path: Path) -> None:
    commands = exchanges(block.text)
    typed = SHELL + "".join(f"{command}\ncode=$?; echo '<next>'; (exit $code)\n" for command, _ in commands)
    environment = {**os.environ, "HOLDFAST_STATE_DIR": str(tmp_path / "state"), "PYTHON": sys.executable}
    done = subprocess.run(
        ["sh", "-c", typed],
        cwd=tmp_path,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=BOUND_S,
        check=False,
    )
    answers = done.stdout.split("<next>\n")
    for (command, shown), seen in zip(commands, answers, strict=False):
        assert agrees(shown, seen), f"{block}: {command}\nanswers\n{seen}"
    assert answers[len(commands) :] == [""], f"{block}\n{done.stdout}"


def test_control_another_answer_is_noticed() -> None:
    assert agrees("working\nholdfast: run 01m7gh3jexfan9s691cv\n", "working\nholdfast: run 01m7gh3h53es7va7eycm\n")
    assert agrees("a\n...\nz\n", "a\nb\nc\nz\n")
    assert not agrees("124\n", "125\n")
    assert not agrees("working\n", "")
    assert not agrees("deadline of 1s passed\n", "deadline of 2s passed\n")


def test_control_blocks_are_found() -> None:
    assert {block.page for block in PYTHON} == {"README.md", "docs/library.md"}
    assert [len(exchanges(block.text)) for block in SESSIONS if block.page == "README.md"] == [2, 7]
    assert all(printed(block.text) for block in PYTHON)


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links(page: Path) -> None:
    prose = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", prose):
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        linked = (page.parent / path).resolve() if path else page
        assert linked.exists(), target
        assert not anchor or anchor in anchors(linked), target


def anchors(page: Path) -> set[str]:
    """The anchors of a page: its headings, in the form of links."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", [page for page in LINKED if page.name not in GENERATED], ids=lambda page: page.name)
def test_lines_fit(page: Path) -> None:
    """A row of a table cannot be broken; everything else can."""
    lines = enumerate(page.read_text().splitlines(), 1)
    assert not [f"{page.name}:{number}" for number, line in lines if len(line) > 120 and not line.startswith("|")]


@pytest.mark.parametrize("command", [*COMMANDS])
def test_every_option_is_documented(command: str) -> None:
    shown = [sys.executable, "-m", "holdfast.cli.main", command, "--help"]
    done = subprocess.run(shown, capture_output=True, text=True, timeout=BOUND_S, check=True)
    manual = "".join(page.read_text() for page in sorted(ROOT.glob("docs/*.md")))
    missing = [option for option in re.findall(r"^  (--[a-z-]+)", done.stdout, re.MULTILINE) if option not in manual]
    assert not missing


def test_the_measured_tables_are_those_of_the_results() -> None:
    for name, results, made in (
        ("bench", "benchmarks.json", bench_page.excerpt),
        ("conformance", "conformance.json", conformance_page.excerpt),
        ("trials", "trials.json", trials_page.excerpt),
    ):
        measured = json.loads((ROOT / "docs" / results).read_text(encoding="utf-8"))
        assert excerpt.get(name) == made(measured), f"make {name} writes it"


def test_a_measured_table_replaces_the_one_before(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("a\n<!-- bench: by `make bench` -->\nold\n<!-- end of bench -->\nb\n")
    excerpt.put("bench", "new \\1", page)
    assert excerpt.get("bench", page) == "new \\1"
    assert page.read_text() == "a\n<!-- bench: by `make bench` -->\nnew \\1\n<!-- end of bench -->\nb\n"
    with pytest.raises(LookupError):
        excerpt.put("other", "", page)


def test_examples_have_ids_of_today() -> None:
    """Ids once began with a date; a reader who copies such an id finds no run."""
    old = [page.name for page in LINKED if re.search(r"\b20\d{6}-[0-9a-z…]", page.read_text())]
    assert old == []
