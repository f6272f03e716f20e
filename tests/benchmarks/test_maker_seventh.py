import sys
import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import shapely

from benchmarks.makers.products import DIRECTIONS
from benchmarks.makers.seventh.__main__ import main
from benchmarks.makers.seventh.building import Building, Notch, compass_of, is_read_alike
from benchmarks.makers.seventh.city import make_city
from benchmarks.makers.seventh.hinge import draw_hinge
from benchmarks.makers.seventh.series import draw_course
from benchmarks.makers.seventh.settings import KINDS
from benchmarks.makers.seventh.strain import strain_of
from benchmarks.makers.seventh.structure import Structure
from benchmarks.makers.seventh.town import draw_town
from benchmarks.makers.seventh.tracks import Track, read_track
from benchmarks.makers.seventh.trough import Ground, Trough, Tunnel
from plumbline.core.errors import InputError
from plumbline.params import Ingest
from plumbline.sources.city.files import find_files
from plumbline.sources.city.ingest import ingest
from plumbline.sources.city.labels import read_labels
from plumbline.sources.points.read import read_points

BUILDINGS, SEED = 12, 72
HOUSE = Building(np.zeros(2), 0.3, (8.0, 8.0), None)
CURVED = 0.01
"""Of a cylinder, 1/m: the steepest bay of `HOUSE` is 6 m from the centre."""


@pytest.fixture(scope="module")
def city(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("cities") / "sentinel-s"
    make_city(folder, "sentinel", BUILDINGS, SEED)
    return folder


@pytest.fixture(scope="module")
def town():
    return draw_town(np.random.default_rng(1), KINDS["xband"], 30)


def moved(up=0.0, along_x=0.0, along_y=0.0):
    """A field of three functions of x and y, or of constants."""

    def field(x, y):
        parts = [part(x, y) if callable(part) else part for part in (up, along_x, along_y)]
        return np.stack([part + 0 * x for part in parts], 1)

    return field


def bent(x, y):
    return -CURVED * x**2 / 2


@pytest.mark.parametrize(
    ("field", "expected"),
    [
        (moved(lambda x, y: -0.05 + 0.004 * x - 0.003 * y, -0.04, 0.03), 0),
        (moved(along_x=lambda x, y: 1e-3 * x), 1e-3),
        (moved(along_x=lambda x, y: -1e-3 * x), 0),
        (moved(bent), CURVED * 6 / 2),
        (moved(lambda x, y: 1e-3 * x * y), 1e-3 * 8 / 2),
        (moved(bent, along_x=lambda x, y: 4e-4 * x), 2e-4 + np.hypot(2e-4, CURVED * 6 / 2)),
        (moved(lambda x, y: bent(y, x), along_y=lambda x, y: 4e-4 * y), 2e-4 + np.hypot(2e-4, CURVED * 6 / 2)),
    ],
    ids=["rigid", "stretched", "squeezed", "cylinder", "saddle", "both", "both across"],
)
def test_strains_are_those_of_closed_forms(field, expected):
    assert strain_of(HOUSE, field)[0] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_a_bay_is_half_of_a_short_side():
    small = Building(np.zeros(2), 0.0, (3.0, 3.0), None)
    assert strain_of(small, moved(bent))[0] == pytest.approx(CURVED * 1.5 / 2)


@pytest.mark.parametrize("sign", [(1, 1), (-1, 1), (-1, -1), (1, -1)])
def test_a_hinge_makes_its_strain_in_its_quadrant(sign):
    house = Building(np.zeros(2), 0.2, (14.0, 7.0), Notch((-sign[0], sign[1]), (5.0, 4.0)))
    hinge, target = draw_hinge(np.random.default_rng(0), house, sign, (1.2, 2.0))
    strain, quadrant = strain_of(house, hinge.field)
    assert strain == pytest.approx(target)
    assert quadrant == {1: "N", -1: "S"}[sign[1]] + {1: "E", -1: "W"}[sign[0]]
    corner = hinge.field(*(np.array([s * half]) for s, half in zip(sign, house.half, strict=True)))[0]
    np.testing.assert_allclose(corner, hinge.drop_m * np.array([-1, *(np.array(sign) * hinge.opening)]))


def test_a_trough_is_the_textbooks():
    # D 6 m, volume loss 1.5 %, depth 15 m, K 0.5 give 22.5 mm and a largest slope of 1.8e-3.
    ground = Ground(Tunnel(np.zeros(2), 0.0, 7.5, 15.0, 0.313 * 0.015 * 6**2 / 7.5), 0.0, (1.0, 0.0))
    x = np.linspace(-30, 30, 601)
    up, across = ground.moved(x, 0 * x)
    assert up.min() == pytest.approx(-0.0225, abs=1e-4)
    assert np.gradient(up, x).max() == pytest.approx(1.8e-3, abs=5e-5)
    np.testing.assert_allclose(across, x / 15 * up)
    # A house that is stiff goes with the plane and the mean, one that is not goes with the ground.
    stiff, soft = (Trough(ground, np.array([-0.01, 1e-3, 0.0]), 2e-3, share, share).field(x, 0 * x) for share in (0, 1))
    np.testing.assert_allclose(stiff, np.stack([-0.01 + 1e-3 * x, 0 * x + 2e-3, 0 * x], 1))
    np.testing.assert_allclose(soft, np.stack([up, across, 0 * x], 1), atol=1e-15)


@pytest.mark.parametrize("angle_deg", [10, 44.9, -44.9])
def test_a_footprint_says_the_axes_of_its_house(angle_deg):
    house = Building(np.array([100.0, 200.0]), np.radians(angle_deg), (5.0, 9.0), None)
    centre, angle, half = compass_of(house.outline())
    np.testing.assert_allclose([*centre, np.degrees(angle), *half], [100, 200, angle_deg, 5, 9])
    turned = Building(house.centre, house.angle - np.pi / 2, house.half, None)
    assert is_read_alike(house, house.outline())
    assert not is_read_alike(turned, house.outline())


@pytest.mark.parametrize("sign", [(1, 1), (-1, 1), (-1, -1), (1, -1)])
def test_an_outline_runs_around_what_the_house_holds(sign):
    house = Building(np.array([10.0, 20.0]), 0.4, (7.0, 9.0), Notch(sign, (4.0, 5.0)))
    outline = house.outline()
    assert outline.is_valid
    assert outline.exterior.is_ccw
    assert outline.area == pytest.approx(14 * 18 - 4 * 5)
    x, y = np.random.default_rng(0).uniform(-10, 10, (2, 500))
    np.testing.assert_array_equal(shapely.contains_xy(outline, house.on_map(x, y)), house.holds(x, y))


def test_a_house_leans_as_it_tilts_and_grows_in_summer():
    house = Building(np.zeros(2), 0.0, (5.0, 5.0), None)
    structure = Structure(house, house.outline(), None, np.nan, [], 0.0, "", np.array([2e-3, -1e-3]), 0.03, 9, 1, 1e-4)
    failed, rigid, taken, grown = structure.movement(np.array([3.0]), np.array([-4.0]), np.array([9.0]))[0]
    assert not failed.any()
    assert not taken.any()
    np.testing.assert_allclose(rigid, [-2e-3 * 9, 1e-3 * 9, -0.03 + 2e-3 * 3 + 1e-3 * 4])
    np.testing.assert_allclose(grown, [3e-4, -4e-4, 9e-4])
    quarter = Building(np.zeros(2), np.pi / 2, (5.0, 5.0), None)  # x is north, y is west
    turned = Structure(quarter, house.outline(), None, np.nan, [], 0.0, "", structure.tilt, 0.03, 9, 1, 1e-4)
    np.testing.assert_allclose(
        turned.movement(np.array([3.0]), np.array([-4.0]), np.array([9.0]))[0, 1], [-rigid[1], rigid[0], rigid[2]]
    )


def test_a_track_looks_as_in_the_design():
    assert Track(pd.DatetimeIndex([]), 30.97, 347.64).los(30.97) == pytest.approx([-0.503, -0.110, 0.857], abs=1e-3)


def test_every_course_goes_from_none_to_all():
    share = np.linspace(0, 1, 40)
    courses = np.array([draw_course(np.random.default_rng(seed), share) for seed in range(40)])
    np.testing.assert_allclose(courses[:, [0, -1]], np.tile([0.0, 1.0], (40, 1)))
    assert (np.diff(courses, axis=1) >= 0).all()
    assert len(np.unique(courses[:, 20].round(6))) > 25


def test_a_town_is_damaged_where_it_is_said(town):
    assert {one.quadrant for one in town.structures if one.severity_permille >= 0.5} == {"NE", "NW", "SW", "SE"}
    assert {one.quadrant for one in town.structures if one.severity_permille < 0.5} == {""}
    alone = [one for one in town.structures if one.hinge and not one.troughs]
    np.testing.assert_allclose(
        [one.severity_permille for one in alone], [one.target_strain * 1e3 for one in alone], atol=1e-5
    )
    outlines = [one.outline for one in town.structures]
    first, second = shapely.STRtree(outlines).query(outlines, predicate="intersects")
    assert (first == second).all()


def test_a_seed_gives_the_city_that_it_always_gave(city, tmp_path):
    make_city(tmp_path / city.name, "sentinel", BUILDINGS, SEED)
    for path in city.iterdir():
        assert path.read_bytes() == (tmp_path / city.name / path.name).read_bytes()
    # Numbers of the maker as it came: another order of random draws gives others.
    labels = read_labels(city / "labels.csv")
    np.testing.assert_allclose(labels["severity_permille"][-4:], [0.19675, 5.23174, 2.78393, 1.42134], rtol=1e-4)
    always = (("A", 71, 4410156.735, -235144.4), ("D", 69, 4410150.157, -286203.3))
    for letter, count, easting_m, sum_mm in always:
        product = pd.read_csv(city / f"EGMS_L2b_{letter}.csv")
        assert product["pid"].nunique() == len(product) == count
        assert product["easting"].mean() == pytest.approx(easting_m, abs=0.01)
        assert product.filter(regex=r"^\d{8}$").sum().sum() == pytest.approx(sum_mm, abs=1)


def test_ingest_reads_a_city(city, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ingest([city], Ingest(), tmp_path / "ingest", 1)
    files = find_files(city)
    labels = read_labels(files.labels)
    assert len(labels) == BUILDINGS
    for path in files.products:
        track = read_points(path)
        assert len(track.epochs) == 200
        np.testing.assert_allclose(np.linalg.norm(track.los, axis=1), 1, atol=2e-3)


def test_real_residuals_have_no_line_and_no_year_and_become_the_noise(city, tmp_path):
    given = []
    for letter in "AD":
        given.append(tmp_path / f"{letter}.zip")
        with zipfile.ZipFile(given[-1], "w") as archive:
            archive.writestr("about.xml", "<about/>")
            archive.writestr(
                "product.csv", pd.read_csv(city / f"EGMS_L2b_{letter}.csv").fillna(0.0).to_csv(index=False)
            )
    track = read_track(given[0], "ascending")
    years = (track.dates - track.dates[0]).days.to_numpy() / 365.25
    for shape in (np.ones_like(years), years, np.cos(2 * np.pi * years), np.sin(2 * np.pi * years)):
        np.testing.assert_allclose(track.residuals @ shape, 0, atol=1e-6)
    make_city(tmp_path / "real", "sentinel_real", BUILDINGS, SEED, given)
    for letter, *pair in zip("AD", given, DIRECTIONS, strict=True):
        made, real = pd.read_csv(tmp_path / "real" / f"EGMS_L2b_{letter}.csv"), read_track(*pair)
        epochs = list(real.dates.strftime("%Y%m%d"))
        assert list(made.columns[-len(epochs) :]) == epochs
        assert np.isin(made["rmse"], np.sqrt(np.mean(real.residuals**2, 1)).round(1)).all()
        # What is added to a house's smooth movement is rough as the real series are.
        rough = np.diff(made[epochs]).std() / np.diff(real.residuals).std()
        assert rough == pytest.approx(1, abs=0.1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--kind", "xband", "--buildings", "1"], "--buildings: 1 found"),
        (["--kind", "xband", "--seed", "-1"], "--seed: -1 found"),
        (["--kind", "sentinel_real"], "--residuals: none found"),
        (["--kind", "xband", "--residuals", "a.zip", "b.zip"], "--residuals: 2 found"),
        (["--kind", "sentinel_real", "--residuals", "a.zip", "b.zip"], "--residuals: a.zip: no such file"),
    ],
)
def test_a_bad_option_is_named(options, said, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["seventh", str(tmp_path / "c"), *options])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith(f"ERROR {said}")
    assert not (tmp_path / "c").exists()


def test_a_product_with_gaps_everywhere_is_refused(tmp_path):
    (tmp_path / "gaps.csv").write_text("easting,northing,incidence_angle,track_angle,20200101\n1,2,30,350,\n")
    with pytest.raises(InputError, match=r"--residuals: no point of .*gaps\.csv has a value at every epoch"):
        read_track(tmp_path / "gaps.csv", "ascending")


def test_a_place_that_no_folder_can_take_is_refused_before_anything_is_drawn(tmp_path, capsys):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="file: is a file"):
        make_city(tmp_path / "file", "xband", BUILDINGS, SEED)
    assert capsys.readouterr().err == ""
