from types import SimpleNamespace

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.params import Prepare, Score
from plumbline.prepare.abstention import UNSURE_WHERE, ModelledBuildings
from plumbline.serve.judgement import ModelSummary, judge
from plumbline.serve.place.local_rate import RateVariation
from plumbline.serve.score import tiles as tiles_module
from plumbline.serve.score.tiles import ANSWERS, BUILDINGS, COURSES, ROWS, WHOLE, judge_delivery, read_answers
from plumbline.sources.city.causes import Cause, read_causes
from tests.serve.made import SHARE, answers_of, courses_of, whole_of

PREPARE = Prepare(min_quadrant_confidence=0.55)


@pytest.fixture(autouse=True)
def package(monkeypatch):
    """A package and its model, as far as they are asked."""
    model = SimpleNamespace(prepare=PREPARE, about=ModelSummary("7", SHARE))
    monkeypatch.setattr(tiles_module, "_open_once", lambda package, version: model)


def said_of(rows, unsure, poor=(), p_damaged=None):
    """Footprints at `rows` of the file, and answers for all but the last of them: some unsure where."""
    shapes = [shapely.box(20 * row, 0, 20 * row + 9, 9) for row in rows]
    frame = geopandas.GeoDataFrame({"building_id": [f"B{row}" for row in rows]}, geometry=shapes, crs="EPSG:32633")
    asked = len(rows) - 1
    confidence = np.where(unsure, 0.3, 0.9)[:asked, None]
    probability = np.concatenate([confidence, np.repeat((1 - confidence) / 3, 3, axis=1)], axis=1)
    p_damaged = np.linspace(0.85, 0.99, asked) if p_damaged is None else p_damaged[:asked]
    answers = answers_of(probability, np.linspace(0.3, 3, asked), p_damaged=p_damaged)
    is_poor = np.isin(np.arange(asked), poor)
    return (
        ModelledBuildings(np.arange(asked), np.array([9] * asked + [2]), is_poor, np.full(asked, 0.1)),
        answers,
        frame,
    )


def tile(folder, rows, *said):
    folder.mkdir()
    asked, answers, frame = said_of(rows, *said)
    frame.to_parquet(folder / BUILDINGS)
    np.savez(folder / ANSWERS, **asked._asdict(), **answers._asdict())
    np.savez(folder / COURSES, **courses_of([], [])._asdict())
    np.savez(folder / WHOLE, **whole_of(len(rows))._asdict())
    np.save(folder / ROWS, np.array(rows))
    return SimpleNamespace(folder=folder, package=None, version="7", city=CITY)


RECORD = {"first_epoch": "2020-01-03T00:00:00", "last_epoch": "2023-12-30T00:00:00"}
CITY = SimpleNamespace(about={"crs": "EPSG:32633", "tracks": [RECORD]})


def test_tiles_together_are_in_the_order_of_the_file(tmp_path):
    tiles = [
        tile(tmp_path / "a", [3, 0, 5], [True, False, False]),
        tile(tmp_path / "b", [2, 1, 4, 6], [False, True, False, False]),
    ]
    judged = read_answers(tiles, 0.8)
    table, reason, explanation = judged.table, judged.reason, judged.explanation
    assert table["building_id"].tolist() == [f"B{row}" for row in range(7)]
    assert reason.tolist() == ["ok", UNSURE_WHERE, "ok", UNSURE_WHERE, "ok", "few_points", "few_points"]
    assert (explanation != "").tolist() == (table["status"] != "ok").tolist() == (reason != "ok").tolist()
    assert table["n_points"].tolist() == [9] * 5 + [2] * 2


def test_the_damage_rate_and_the_courses_are_those_of_all_tiles_together(tmp_path):
    """However a city is cut, each building is judged as one of the whole."""
    rows, unsure = np.arange(41), np.arange(41) % 5 == 0
    asked, answers, frame = said_of(rows, unsure, poor=[3, 4], p_damaged=np.full(41, 0.9999))
    followed, onset = np.array([1, 8, 9, 11, 30, 38]), np.array([0.2, 0.5, 0.3, 0.9, 0.4, 0.7])
    moved = whole_of(len(rows))
    courses = courses_of(followed, onset)
    whole = judge(asked, answers, frame, PREPARE, ModelSummary("7", SHARE), courses=courses, whole=moved)
    parts = []
    for number, own in enumerate((rows[:10], rows[10:])):
        inside = np.isin(asked.footprint, own)
        folder = tmp_path / str(number)
        folder.mkdir()
        part = ModelledBuildings(
            asked.footprint[inside] - own[0], asked.n_points[own], asked.few[inside], asked.strain_error[inside]
        )
        frame.iloc[own].to_parquet(folder / BUILDINGS)
        np.savez(folder / ANSWERS, **part._asdict(), **{k: v[inside] for k, v in answers._asdict().items()})
        here = np.isin(followed, own)
        np.savez(folder / COURSES, **courses_of(followed[here] - own[0], onset[here])._asdict())
        np.savez(folder / WHOLE, **{name: values[own] for name, values in moved._asdict().items()})
        np.save(folder / ROWS, own)
        parts.append(SimpleNamespace(folder=folder, package=None, version="7"))
    found = read_answers(parts)
    assert found.rate == whole.rate
    assert found.reason.tolist() == whole.reason.tolist()
    assert found.table.drop(columns="geometry").equals(whole.table.drop(columns="geometry"))
    assert whole.table["begins"].notna().sum() > 2
    assert whole.table["against_neighbours_mm"].notna().all()
    assert found.courses.equals(whole.courses)
    where = RateVariation([Cause("tunnel", shapely.box(0, -9, 400, 0), 10.0)], True)
    local = judge(asked, answers, frame, PREPARE, ModelSummary("7", SHARE), courses=courses, where=where, whole=moved)
    own = read_answers(parts, None, where).table
    assert own.drop(columns="geometry").equals(local.table.drop(columns="geometry"))
    given = read_answers(parts, 0.02)
    assert (given.rate.rate, given.rate.estimated) == (0.02, False)
    lower, p_damaged = given.table["p_damaged"], whole.table["p_damaged"]
    judged = lower.notna() & p_damaged.notna()
    assert judged.any()
    assert (lower[judged] < p_damaged[judged]).all()


def test_shares_by_cause_and_by_place_are_those_of_the_whole_city(tmp_path):
    """Damage gathers on both sides of the border between two tiles."""
    rows = np.arange(302)
    p_damaged = np.where(rows < 60, 0.99, 0.05)
    tiles = [
        tile(tmp_path / str(number), rows[own], np.zeros(rows[own].size, bool), (), p_damaged[own])
        for number, own in enumerate((slice(0, 30), slice(30, 302)))
    ]
    frame = geopandas.GeoDataFrame(
        {"name": ["tunnel", "old"], "until": [None, "2019-12-31"]},
        geometry=[shapely.LineString([(0, -1), (59 * 20 + 9, -1)]), shapely.Point(0, 0)],
        crs="EPSG:32633",
    )
    frame.to_file(tmp_path / "causes.gpkg")
    causes = read_causes(tmp_path / "causes.gpkg", {})
    reading = SimpleNamespace(delivery=SimpleNamespace(place="town"))
    by_city, by_place, by_cause, given = (
        judge_delivery(reading, tiles, Score(**section), file)
        for section, file in (
            ({"damage_rate_by": "city"}, None),
            ({}, None),
            ({"damage_rate_by": "city"}, causes),
            ({"damage_rates": {"town": 0.02}}, None),
        )
    )
    assert by_city.table["damage_rate"].nunique() == 1
    local = by_place.table["damage_rate"]
    assert local[25] == pytest.approx(local[35], rel=0.1)
    assert local[35] > 3 * by_city.rate.rate > 3 * local[200]
    assert by_cause.causes[["name", "judged_buildings"]].to_numpy().tolist() == [["tunnel", 59]]  # one has few points
    assert set(given.table["damage_rate"].dropna()) == {0.02}
