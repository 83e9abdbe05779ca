"""The published page of the trials: of every harness, scene and way, made from its results, and nothing left by us."""

from __future__ import annotations

from trials.harnesses import HARNESSES
from trials.scenes import SCENES

from trials import page


def test_every_cell_is_published() -> None:
    known = page.load(page.PAGE)
    assert set(known["cells"]) == {scene.name for scene in SCENES}
    for scene in SCENES:
        for harness in HARNESSES:
            assert set(known["cells"][scene.name][harness.key]) == {"alone", "holdfast"}, (scene.name, harness.key)


def test_the_versions_are_those_of_the_rigs() -> None:
    assert page.load(page.PAGE)["versions"] == {harness.key: harness.rig.version for harness in HARNESSES}


def test_the_page_is_made_from_its_results() -> None:
    assert page.PAGE.read_text(encoding="utf-8") == page.render(page.load(page.PAGE))


def test_no_session_with_holdfast_left_a_process() -> None:
    for name, harnesses in page.load(page.PAGE)["cells"].items():
        for key, ways in harnesses.items():
            assert (ways["holdfast"]["failure"], ways["holdfast"]["left"]) == (None, 0), (name, key)


def test_control_without_holdfast_processes_were_left() -> None:
    known = page.load(page.PAGE)
    for harness in HARNESSES:
        assert known["cells"]["daemons"][harness.key]["alone"]["left"] == 2, harness.key
