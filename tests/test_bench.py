"""The benchmarks run, and their results are complete and sane. No test asserts a speed."""

from __future__ import annotations

import io
import json
import math
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

import pytest
from bench import campaign, chart, page, results, targets
from bench.__main__ import main
from bench.native import Programs
from bench.plan import QUICK, STANDARD, UNPUBLISHED, Figure, Peer, figures
from bench.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parent.parent
SUBSET = ("spawn-16", "stream", "cancel-20", "deadline-blocked", "memory-5", "submit-16", "startup", "compat-16")


def numbers(value: Any) -> Iterator[float]:
    """Every number in a result."""
    if isinstance(value, dict):
        for part in value.values():
            yield from numbers(part)
    elif isinstance(value, list):
        for part in value:
            yield from numbers(part)
    elif isinstance(value, int | float):
        yield float(value)


pytestmark = pytest.mark.xdist_group("bench")  # one worker measures for all of them


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """One quick run of a part of the benchmarks, as a user starts it."""
    directory = tmp_path_factory.mktemp("bench")
    only = [word for name in SUBSET for word in ("--only", name)]
    command = [sys.executable, "-m", "bench", "--quick", *only, "--output", str(directory)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads((directory / "benchmarks.json").read_text()), directory


@pytest.mark.slow
def test_every_peer_of_the_subset_has_sane_results(measured: tuple[dict[str, Any], Path]) -> None:
    found = measured[0]["figures"]
    assert sorted(found) == sorted(SUBSET)
    for figure in figures(QUICK):
        if figure.name in SUBSET:
            assert found[figure.name]["errors"] == {}
            assert list(found[figure.name]["peers"]) == [peer.name for peer in figure.peers]
            for summary in found[figure.name]["peers"].values():
                assert summary
                assert all(math.isfinite(number) for number in numbers(summary))
    assert results.median(found, "memory-5", "holdfast.Supervisor", "alive") == 5
    assert all(rate > 0 for rate in numbers([one["per_second"] for one in found["spawn-16"]["peers"].values()]))


@pytest.mark.slow
def test_the_page_shows_what_was_measured_and_charts_are_svg(measured: tuple[dict[str, Any], Path]) -> None:
    text = (measured[1] / "benchmarks.md").read_text()
    assert "16 at once" in text
    assert "not measured" in text  # omitted figures are not made up
    charts = list((measured[1] / "benchmarks").glob("*.svg"))
    assert charts
    for drawing in charts:
        assert ElementTree.parse(drawing).getroot().tag.endswith("svg")
        assert f"benchmarks/{drawing.name}" in text


def test_a_peer_that_fails_is_shown_and_stops_nobody(tmp_path: Path) -> None:
    peers = (Peer("works", "startup", "coreutils_timeout"), Peer("broken", "startup", "no_such_function"))
    figure = Figure("startup", "startup", "command line", peers, {"count": 1}, 2)
    found = campaign.carry_out([figure], Programs("", None), tmp_path, Progress(4))["startup"]
    assert list(found["peers"]) == ["works"]
    assert "no_such_function" in found["errors"]["broken"]
    assert len(found["peers"]["works"]["ms"]["rounds"]) == 2


def test_progress_is_a_bar_on_a_terminal_and_lines_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    class Stderr(io.StringIO):
        def isatty(self) -> bool:
            return self.is_terminal

        is_terminal = False

    shown = {}
    for is_terminal in (True, False):
        stderr = Stderr()
        stderr.is_terminal = is_terminal
        monkeypatch.setattr(sys, "stderr", stderr)
        progress = Progress(2)
        progress.step("spawn", "asyncio, round 1")
        progress.step("spawn", "asyncio, round 2")
        progress.finish()
        shown[is_terminal] = stderr.getvalue()
    assert f"[{'#' * 12}{'.' * 12}] 1/2" in shown[True]
    assert shown[False].splitlines()[0] == "bench: 0/2 spawn"
    assert len(shown[False].splitlines()) == 2, "a line for each section, and one for the end"


def test_an_unknown_figure_is_an_error_that_names_the_known_ones() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "nonsense"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "spawn-16" in done.stderr


def rounds(**fields: list[float]) -> dict[str, Any]:
    """The summary of one peer."""
    return {name: {"median": sorted(values)[len(values) // 2], "rounds": values} for name, values in fields.items()}


def test_a_ratio_is_taken_within_rounds_so_that_a_slow_round_does_not_count() -> None:
    found = {"f": {"peers": {"a": rounds(x=[10.0, 1.0, 10.0]), "b": rounds(x=[5.0, 0.5, 5.0])}}}
    assert results.ratio(found, "f", "a", "b", "x") == 2.0
    assert results.ratio(found, "f", "a", "absent", "x") is None


def test_targets_not_measured_are_neither_met_nor_missed() -> None:
    for target in targets.TARGETS:
        assert target.measure({}) is None
    page_text = page.targets_table({})
    assert "met" not in page_text
    assert page_text.count("not measured") == len(targets.TARGETS)


def test_a_target_knows_its_right_side() -> None:
    late = next(target for target in targets.TARGETS if not target.at_least)
    fast = next(target for target in targets.TARGETS if target.at_least)
    assert late.holds(1.0, 2.0)
    assert not late.holds(3.0, 2.0)
    assert fast.holds(3.0, 2.0)
    assert not fast.holds(1.0, 2.0)


def test_charts_escape_their_text_and_take_an_empty_group() -> None:
    drawing = chart.bars("a < b & c", "", [("group", [chart.Bar("<peer>", 0.0, "peer")]), ("empty", [])])
    ElementTree.fromstring(drawing)
    line = chart.Series("one", ((10.0, 1.0), (1000.0, 3.0)))
    ElementTree.fromstring(chart.lines("growth", "", "n", [line]))


# The promised figures, and their peers.
PROMISED = {
    "drop-ins against the originals": {"compat-1", "compat-16", "compat-256"},
    "runs per second": {"spawn-1", "spawn-16", "spawn-256"},
    "captured and streamed output": {"capture", "stream"},
    "cancel to gone": {"cancel-1", "cancel-20"},
    "deadlines": {"deadline-idle", "deadline-blocked", "deadline-together"},
    "memory per live run": {"memory-10", "memory-100", "memory-1000", "memory-5000"},
    "start-up": {"startup"},
    "through the daemon": {"submit-16"},
    "on a Ray cluster": {"placing-16", "placing-256", "placing-output"},
}
CHARTS = {"spawn", "spawn-growth", "output", "cancel", "deadline", "memory", "daemon", "startup"}


def test_the_standard_scale_has_everything_that_was_promised() -> None:
    plan = {figure.name: figure for figure in figures(STANDARD)}
    assert plan.keys() == set().union(*PROMISED.values())
    assert plan["deadline-together"].parameters["count"] == 200
    for name, figure in plan.items():
        names = [peer.name for peer in figure.peers]
        assert any("holdfast" in peer for peer in names), name
        assert any("holdfast" not in peer for peer in names) or name == "submit-16", name


@pytest.fixture(scope="module")
def published() -> tuple[dict[str, Any], str]:
    return json.loads((ROOT / "docs/benchmarks.json").read_text()), (ROOT / "docs/benchmarks.md").read_text()


def test_the_published_results_are_of_a_whole_run(published: tuple[dict[str, Any], str]) -> None:
    found, _ = published
    assert found["scale"] == "standard"
    plan = [figure for figure in figures(STANDARD) if figure.name not in UNPUBLISHED]
    assert list(found["figures"]) == [figure.name for figure in plan]
    for figure in plan:
        measured = found["figures"][figure.name]
        assert measured["errors"] == {}
        assert (measured["parameters"], measured["rounds"]) == (figure.parameters, figure.rounds), figure.name
        assert list(measured["peers"]) == [peer.name for peer in figure.peers], figure.name


def test_a_part_that_was_measured_later_is_published_with_its_own_machine(
    published: tuple[dict[str, Any], str], tmp_path: Path
) -> None:
    found, _ = published
    docs, part = tmp_path / "docs", tmp_path / "part"
    machine = found["machine"] | {"at": "2027-01-01T00:00:00+00:00"}
    only = {"scale": "standard", "machine": machine, "figures": {"startup": found["figures"]["startup"]}}
    for directory, results_there in ((docs, found), (part, only)):
        directory.mkdir()
        (directory / "benchmarks.json").write_text(json.dumps(results_there))
    assert main(["--publish", str(part), "--output", str(docs)]) == 0
    now = json.loads((docs / "benchmarks.json").read_text())
    assert list(now["figures"]) == list(found["figures"])
    assert now["figures"]["startup"] == found["figures"]["startup"] | {"machine": machine}
    assert (docs / "benchmarks.md").read_text().count("in a run of its own, 2027-01-01T00:00:00+00:00") == 1
    (part / "benchmarks.json").write_text(json.dumps(only | {"scale": "quick"}))
    assert main(["--publish", str(part), "--output", str(docs)]) == 2


def test_the_published_page_is_made_from_them(published: tuple[dict[str, Any], str], tmp_path: Path) -> None:
    found, text = published
    (tmp_path / "benchmarks.json").write_text(json.dumps(found))
    command = [sys.executable, "-m", "bench", "--page-only", "--output", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "benchmarks.md").read_text() == text
    drawings = {drawing.name for drawing in (tmp_path / "benchmarks").iterdir()}
    assert (
        drawings == {f"{name}.svg" for name in CHARTS} == {path.name for path in (ROOT / "docs/benchmarks").iterdir()}
    )
    for name in drawings:
        assert (tmp_path / "benchmarks" / name).read_text() == (ROOT / "docs/benchmarks" / name).read_text()


def test_the_published_page_says_where_the_time_goes_and_how_far_the_limit_is(
    published: tuple[dict[str, Any], str],
) -> None:
    found, text = published
    assert text.count("Where a supervised run's CPU time goes") == 3
    assert "of the limit" in text
    assert "not measured" not in text
    machine = found["machine"]
    for fact in (machine["processor"], machine["kernel"], f"{machine['cores']} cores"):
        assert fact in text
    for target in targets.TARGETS:
        assert target.measure(found["figures"]) is not None, target
