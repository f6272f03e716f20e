"""The report on a model's confidence, from answers made by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from xml.etree import ElementTree

import numpy as np
import pandas as pd
import pytest

from benchmarks.heldout.report import Examined, slices, write_report
from benchmarks.heldout.scores import ENGINEER, MODEL, beside_labels, score

BUILDINGS = 400


def city(name: str, held: float, seed: int) -> Examined:
    """Answers whose interval holds `held` of the buildings with 30 scatterers, and all of those with 12."""
    rng = np.random.default_rng(seed)
    names = [f"b{i}" for i in range(BUILDINGS)]
    true = rng.uniform(0.6, 4, BUILDINGS)
    labels = pd.DataFrame({"building_id": names, "severity_permille": true, "quadrant": "NE"})
    few, out = np.arange(BUILDINGS) % 2 == 0, np.arange(BUILDINGS) // 2 >= held * BUILDINGS / 2
    confidence = rng.uniform(0.3, 1, BUILDINGS)
    said = pd.DataFrame(
        {
            "building_id": names,
            "n_points": np.where(few, 12, 30),
            "quadrant_confidence": confidence,
            "quadrant": np.where(confidence > 0.5, "NE", "SW"),
            "severity_permille": true,
            "severity_low": true + np.where(out & ~few, 0.1, -0.5),
            "severity_high": true + 1.0,
        }
    )
    answers = beside_labels(said, labels).assign(area_m2=120.0, strain_error_permille=0.05)
    by_hand = said.assign(severity_low=np.nan, severity_high=np.nan)
    rows = [
        (name, "sentinel", MODEL, score(said, labels, BUILDINGS + 100)),
        (name, "sentinel", ENGINEER, score(by_hand, labels, BUILDINGS + 100)),
    ]
    statuses = {"ok": BUILDINGS, "insufficient_points": 75, "out_of_distribution": 25}
    return Examined(name, "sentinel", rows, statuses, answers, beside_labels(by_hand, labels))


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    write_report([city("sentinel_1", 0.9, 0), city("sentinel_2", 0.7, 1)], "Two cities", folder)
    return folder


def row_of(page: str, name: str) -> list[str]:
    (line,) = [line for line in page.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.split("|")[2:-1]]


def test_slices_say_what_the_interval_holds_and_cities_of_a_kind_together(report):
    page = (report / "report.md").read_text()
    assert "| slice | 2 sentinel |" in page
    assert row_of(page, "points 20 to 50") == ["**0.800** ± 0.020; 400, 1.50"]
    assert row_of(page, "points 10 to 20") == ["**1.000** ± 0.000; 400, 1.50"]
    assert "points 0 to 10" not in page
    assert all(not cell or int(cell.split("; ")[1].split(",")[0]) >= 200 for cell in row_of(page, "category 3"))


def test_cities_of_a_kind_have_a_row_together(report):
    page = (report / "report.md").read_text()
    cells = next(line for line in page.splitlines() if line.startswith("| 2 sentinel | model |")).split("|")
    assert [cell.strip() for cell in cells[3:5]] == ["1000", "0.800 (≥ 0.65)"]
    # A half of the buildings has an interval that holds nine, or seven, of ten: together nine of ten of all.
    assert "0.900 ± 0.011" in cells[8]
    assert f"| sentinel_1 | {MODEL} |" not in page
    assert f"| 2 sentinel | {ENGINEER} |" in page


def test_a_city_that_is_alone_of_its_kind_has_tables_of_its_own(tmp_path):
    write_report([city("sentinel_1", 0.9, 0)], "One", tmp_path)
    page = (tmp_path / "report.md").read_text()
    assert row_of(page, "points 20 to 50") == ["0.900 ± 0.021; 200, 1.50"]
    assert f"| sentinel_1 | {ENGINEER} |" in page


def test_the_share_of_each_status(report):
    page = (report / "report.md").read_text()
    head = page.index("| city | buildings | ok |")
    assert "| sentinel_1 | 500 | 0.800 | 0.150 | 0.050 |" in page[head:]


def test_figures_are_strict_json_and_those_of_the_page(report):
    figures = json.loads((report / "scores.json").read_text(), parse_constant=pytest.fail)
    one = figures["cities"][0]["scores"]
    assert one[ENGINEER]["coverage"] is None
    assert one[MODEL]["coverage"] == pytest.approx(0.95)
    assert figures["intervals"]["2 sentinel"]["points 20 to 50"]["held"] == pytest.approx(0.8)
    assert figures["curves"]["sentinel_1"][MODEL][-1]["accuracy"] == pytest.approx(one[MODEL]["quadrant"])


def test_the_plot_has_a_curve_a_city_and_who(report):
    root = ElementTree.fromstring((report / "coverage.svg").read_text())
    assert len([part for part in root if part.tag.endswith("polyline")]) == 4


def test_every_building_is_once_in_each_kind_of_slice():
    answers = city("sentinel_1", 0.9, 0).answers
    found = slices(answers)
    for kind in ("points", "area_m2", "strain_error_permille", "category"):
        assert (sum(rows.astype(int) for name, rows in found.items() if name.startswith(kind)) == 1).all()


def test_without_a_model_least_squares_are_reported_alone(tmp_path):
    whole = city("sentinel_1", 0.9, 0)
    write_report([Examined("c", "sentinel", whole.rows[1:], None, None, whole.engineer)], "By hand", tmp_path)
    assert "interval holds" not in (tmp_path / "report.md").read_text()
    assert "polyline" in (tmp_path / "coverage.svg").read_text()


def test_who_is_damaged_for_sure_is_told_of_damaged_and_sound(tmp_path):
    made = city("one", 1.0, 0)
    low = np.where(np.arange(BUILDINGS) < 100, 0.5, 0.0)
    true = np.where(np.arange(BUILDINGS) % 4 == 0, 0.2, 2.0)  # of the first 100, and of all, three of four are damaged
    write_report([replace(made, answers=made.answers.assign(severity_low=low, true=true))], "One", tmp_path)
    page = (tmp_path / "report.md").read_text().partition("## Damaged for sure")[2]
    # As many of the sound as of the damaged: so it says nothing of one in fifty.
    assert row_of(page.partition("## Quadrant")[0], "one") == ["0.250", "0.250", "0.750", "0.020"]
    found = json.loads((tmp_path / "scores.json").read_text())["sure"]["one"]
    assert found["0.5"] == {"of_damaged": 0.25, "of_sound": 0.25, "right": 0.75, "rare": pytest.approx(0.02)}
    assert found["0.75"] == {"of_damaged": 0.0, "of_sound": 0.0}  # and nothing of those who are not told
    assert "3" in found


def test_of_few_damaged_buildings_many_of_those_told_are(tmp_path):
    """By Bayes' rule: one damaged in fifty, four of five of them told, and one of ten sound ones."""
    made = city("one", 1.0, 0)
    place, true = np.arange(BUILDINGS), np.where(np.arange(BUILDINGS) % 2 == 0, 0.2, 2.0)
    low = np.where(true > 1, np.where(place % 10 < 8, 0.6, 0.0), np.where(place % 20 == 0, 0.6, 0.0))
    write_report([replace(made, answers=made.answers.assign(severity_low=low, true=true))], "One", tmp_path)
    found = json.loads((tmp_path / "scores.json").read_text())["sure"]["one"]["0.5"]
    assert (found["of_damaged"], found["of_sound"]) == pytest.approx((0.8, 0.1))
    assert found["rare"] == pytest.approx(0.02 * 0.8 / (0.02 * 0.8 + 0.98 * 0.1))
