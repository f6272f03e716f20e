import datetime
import sys
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

from benchmarks.heldout.__main__ import main
from benchmarks.heldout.city import make_city
from benchmarks.heldout.courses import KINDS, course
from benchmarks.heldout.files import write_product
from benchmarks.heldout.judge import examine
from benchmarks.heldout.judge import main as judge_main
from benchmarks.heldout.observe import Product
from benchmarks.heldout.residuals import Residuals
from benchmarks.heldout.scores import MODEL, Scores, score, table
from benchmarks.heldout.sensors import SENSORS, View
from plumbline.core.errors import InputError
from plumbline.params import Ingest, Prepare
from plumbline.prepare.features.shards import load_shards
from plumbline.prepare.stage import prepare
from plumbline.sources.city.ingest import ingest
from plumbline.sources.points.read import read_points
from plumbline.validate.metrics import chance_calibration_error

BUILDINGS = 60
CODES = {"NE": 0, "NW": 1, "SW": 2, "SE": 3}


@pytest.fixture(scope="module")
def city(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cities") / "sentinel_small"
    make_city(folder, "sentinel", BUILDINGS, 2)
    return folder


def test_a_city_goes_through_ingest_and_prepare(city, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ingest([city], Ingest(), tmp_path / "ingest", 1)
    section = Prepare(block_m=60.0, split={"train": 0.4, "tune": 0.2, "calibrate": 0.2, "test": 0.2})
    prepare(tmp_path / "ingest", section, tmp_path / "prepare", 1)
    labels = pd.read_csv(city / "labels.csv", keep_default_na=False).set_index("building_id")
    found = 0
    for split in section.split:
        shards = load_shards(tmp_path / "prepare" / split)
        own = labels.loc[np.asarray(shards.building_id)]
        np.testing.assert_allclose(shards.severity, own["severity_permille"], rtol=1e-5)
        assert [CODES.get(name, -1) for name in own["quadrant"]] == list(shards.quadrant)
        found += len(own)
    assert found > 0.7 * BUILDINGS


def test_the_engineer_is_judged_on_the_city(city):
    ((name, kind, who, scores),) = examine(city, None).rows
    assert (name, kind, scores.buildings) == ("sentinel_small", "sentinel", BUILDINGS)
    assert 0.25 < scores.quadrant < 0.9
    assert 0 < scores.severity < 3
    assert np.isnan(scores.coverage)
    assert who in table([(name, kind, who, scores)])


def test_a_seed_says_everything(city, tmp_path):
    make_city(tmp_path / "again", "sentinel", BUILDINGS, 2)
    for path in city.iterdir():
        assert path.read_bytes() == (tmp_path / "again" / path.name).read_bytes()


def test_footprints_do_not_overlap_and_have_many_shapes(city):
    frame = geopandas.read_file(city / "footprints.geojson").to_crs("EPSG:3035")
    tree = shapely.STRtree(frame.geometry.to_numpy())
    one, other = tree.query(frame.geometry.to_numpy(), predicate="intersects")
    shared = shapely.intersection(frame.geometry.to_numpy()[one], frame.geometry.to_numpy()[other])
    assert (shapely.area(shared)[one != other] < 12).all()  # row houses step back a little and share walls
    assert len(set(pd.read_csv(city / "truth.csv")["shape"])) >= 4


def test_a_product_says_what_was_measured(tmp_path):
    # The design's example: incidence 30.97, track 347.64.
    view = View("x", np.radians(347.64), np.radians(30.97), np.array([0, 12, 18]))
    angle = np.full(3, view.incidence)
    displacement = np.array([[0.0, 1.26, 2.0], [0.04, -7.0, 0.0], [3.0, 1.0, np.nan]])
    place = np.array([[4e6, 3e6], [4e6, 3.1e6], [4e6, 3.2e6]])
    product = Product(view, np.zeros(3, int), place, np.zeros(3), view.los(angle), angle, displacement)
    write_product(tmp_path / "x.csv", product, datetime.date(2020, 1, 31), SENSORS["sentinel"])
    track = read_points(tmp_path / "x.csv")
    np.testing.assert_allclose(track.los[0], [-0.511, -0.112, 0.852], atol=0.01)
    assert list(track.epochs.astype(str)) == ["2020-01-31", "2020-02-12", "2020-02-18"]
    np.testing.assert_allclose(track.displacement, [[0, 1.3, 2], [0, -7, 0], [3, 1, np.nan]], rtol=1e-6)


def test_every_course_goes_from_none_to_all():
    kind = np.arange(len(KINDS)).repeat(50)
    values = course(kind, np.random.default_rng(0).random((len(kind), 2)), np.linspace(0, 1, 40))
    np.testing.assert_allclose(values[:, 0], 0, atol=1e-12)
    np.testing.assert_allclose(values[:, -1], 1)
    assert (np.diff(values, axis=1) >= -1e-12).all()


def test_real_noise_is_asked_for_where_it_is_needed(tmp_path):
    with pytest.raises(InputError, match="--residuals"):
        make_city(tmp_path / "a", "sentinel_real", 10, 0)
    with pytest.raises(InputError, match="--residuals"):
        make_city(tmp_path / "b", "xband", 10, 0, tmp_path / "some.csv")
    with pytest.raises(InputError, match="--neighbours: 30 found, without --residuals"):
        make_city(tmp_path / "c", "xband", 10, 0, neighbours=30)


def whole_product(city):
    """A product without gaps; filled by what stands beside them, as zeros would be taken for missing."""
    product = pd.read_csv(next(city.glob("EGMS*.csv")))
    days = [name for name in product.columns if name.isdigit()]
    product[days] = product[days].interpolate(axis=1, limit_direction="both").round(2)
    return product.fillna(0.0)


def test_borrowed_noise_has_no_line_and_no_year(city, tmp_path):
    product = whole_product(city)
    product.loc[1, ["easting", "northing"]] = product.loc[0, ["easting", "northing"]]  # two at one place
    product.to_csv(tmp_path / "full.csv", index=False)
    residuals = Residuals(tmp_path / "full.csv")
    years = residuals.days / 365.25
    for shape in (np.ones_like(years), years, np.cos(2 * np.pi * years), np.sin(2 * np.pi * years)):
        np.testing.assert_allclose(residuals.series @ shape, 0, atol=1e-5)
    days = np.arange(0, int(2.2 * residuals.days[-1]), 12)
    series = residuals.borrow(np.random.default_rng(0), np.array([0, 0, 0, 4, 4]), days)
    assert series.shape == (5, len(days))
    assert np.isin(series, residuals.series).all()


def test_borrowed_noise_keeps_its_own_line_beside_that_of_its_neighbours(city, tmp_path):
    whole_product(city).to_csv(tmp_path / "full.csv", index=False)
    own, local = (Residuals(tmp_path / "full.csv", count) for count in (1, 7))
    years = (local.days - local.days.mean()) / 365.25
    kept = local.series - own.series
    slope = kept @ years / (years @ years)
    np.testing.assert_allclose(kept, slope[:, None] * years, atol=1e-5)  # a line, and no offset
    assert slope.std() > 0.1
    # What a neighbourhood does together is gone: of each, the middle one of seven lines.
    product = read_points(tmp_path / "full.csv")
    line = np.polyfit(local.days, product.displacement.T, 1)[0] * 365.25
    near = local.near.query(local.place, range(1, 8))[1]
    expected = line - np.median(line[near], axis=1)
    assert np.corrcoef(slope, expected)[0, 1] > 0.98
    with pytest.raises(InputError, match="--neighbours: 0 found, 1 to"):
        Residuals(tmp_path / "full.csv", 0)


def test_scores_count_what_they_say():
    labels = pd.DataFrame(
        {"building_id": list("abcd"), "severity_permille": [0.2, 1.0, 2.0, 4.0], "quadrant": ["", "NE", "NW", "SW"]}
    )
    said = pd.DataFrame(
        {
            "building_id": list("abc"),
            "n_points": [5, 9, 30],
            "quadrant": ["SE", "NE", "SE"],
            "quadrant_confidence": [0.9, 0.8, 0.4],
            "severity_permille": [0.4, 1.0, 1.0],
            "severity_low": [0.1, 0.9, 0.5],
            "severity_high": [0.5, 2.0, 1.5],
        }
    )
    found = score(said, labels, 4)
    # Confidence 0.8 is right, 0.4 is wrong: each a bin of its own. Errors of 0.2, 0 and 1 permille.
    ece, spread = 0.5 * 0.2 + 0.5 * 0.4, np.std([0.2, 0, 1], ddof=1)
    expected = Scores(
        4,
        0.75,
        9,
        0.5,
        0.4,
        2 / 3,
        1.0,
        ece,
        np.sqrt(0.25 / 2),
        spread / np.sqrt(3),
        np.sqrt(2 / 27),
        0.0,
        chance_calibration_error(np.array([0.8, 0.4])),
    )
    np.testing.assert_allclose(found, expected)
    shown = table([("xband", "xband", MODEL, found)])
    assert "**0.500** ± 0.354 (≥ 0.82)" in shown
    assert "| 0.400 ± 0.306 (≤ 0.6) |" in shown
    assert "**0.667** ± 0.272 (0.88 to 0.92)" in shown


def test_the_commands_say_what_is_missing(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["heldout", str(tmp_path / "c"), "--kind", "sentinel_real"])
    with pytest.raises(SystemExit) as ended:
        main()
    said = capsys.readouterr().err
    assert (ended.value.code, said.startswith("ERROR "), "--residuals" in said) == (2, True, True)
    assert not (tmp_path / "c").exists()
    monkeypatch.setattr(sys, "argv", ["judge", str(tmp_path / "c")])
    with pytest.raises(SystemExit) as ended:
        judge_main()
    assert (ended.value.code, capsys.readouterr().err.startswith(f"ERROR {tmp_path / 'c'}: ")) == (2, True)


def test_two_cities_of_one_name_are_not_judged_in_one_report(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["judge", str(tmp_path / "a" / "city"), str(tmp_path / "b" / "city")])
    with pytest.raises(SystemExit) as ended:
        judge_main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("ERROR CITY: city found twice")
