import shutil

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

from plumbline.core.files import sha256_folder
from plumbline.params import Borrowed, Simulate
from plumbline.params.simulate import Mechanisms
from plumbline.simulate.borrowed.city import borrowed_layout, write_borrowed
from plumbline.simulate.radar.egms_writer import EgmsPoints, EgmsProduct, egms_rows
from plumbline.simulate.site import PLACES
from plumbline.simulate.stage import simulate
from plumbline.simulate.structure.failures import MOST_DROP_MM, draw_local_failures
from plumbline.simulate.structure.layout import own_outlines
from tests.refusals import refuses
from tests.sources.points.opening import read_points

BUILDINGS, EACH = 60, 14
DATES = np.datetime64("2019-03-01") + np.arange(120) * 12
LOS = ((-0.62, -0.10, 0.778), (0.59, -0.12, 0.798))
CITY = np.array([4_321_000.0, 3_210_000.0])


def footprints():
    number = np.arange(BUILDINGS)
    corner = CITY + 40.0 * np.stack([number % 8, number // 8], axis=1)
    return shapely.box(*corner.T, *np.add(corner, (20, 14)).T)


def write_product(path, rng, look, motion=0.0):
    """A track whose points are on the footprints, with noise of 3 mm, and `motion` (T,) on all of them."""
    bounds = np.repeat(shapely.bounds(footprints()), EACH, axis=0)
    count = len(bounds)
    los = np.tile(np.array(look) / np.linalg.norm(look), (count, 1))
    points = EgmsPoints(
        number=np.arange(count) + int(1000 * (look[0] + 1)) * 10_000,
        position=rng.uniform(bounds[:, :2], bounds[:, 2:]),
        height=50 + rng.uniform(0, 12, count),
        los=los,
        incidence=np.full(count, 38.0),
        track_angle=np.full(count, -9.0),
        line=np.arange(count, dtype=float),
        pixel=np.arange(count, dtype=float),
    )
    noise = rng.normal(0, 3, (count, len(DATES)))
    noise[5, 10:14] = np.nan
    product = EgmsProduct(path.name, DATES, 55.5)
    path.write_bytes(product.header + egms_rows(rng, product, points, noise + motion))


def fill(folder, motion=0.0):
    folder.mkdir(parents=True)
    rng = np.random.default_rng(1)
    for name, look in zip(("one.csv", "two.csv"), LOS, strict=True):
        write_product(folder / name, rng, look, motion)
    frame = geopandas.GeoDataFrame(
        {"building_id": [f"h{i}" for i in range(BUILDINGS)], "height_m": 12.0}, geometry=footprints(), crs=3035
    )
    frame.to_crs(4326).to_file(folder / "houses.gpkg")
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return fill(tmp_path_factory.mktemp("real") / "town")


def write(out, folder, name="town", **about):
    write_borrowed(
        out, name, Borrowed.model_validate({"folder": folder, **about}), 3, damaged=0.7, mechanisms=Mechanisms()
    )
    return out / name


@pytest.fixture(scope="module")
def out(folder, tmp_path_factory):
    """Two copies."""
    cities = tmp_path_factory.mktemp("cities")
    return write(cities, folder, copies=2, seed=4).parent


def read_labels(folder):
    return pd.read_csv(folder / "labels.csv", keep_default_na=False).set_index("building_id")


def test_it_is_a_city_like_any_other(out):
    assert sorted(path.name for path in out.iterdir()) == ["town", "town--2"]
    for city, suffix in ((out / "town", ""), (out / "town--2", "--2")):
        names = sorted(path.name for path in city.iterdir())
        assert names == ["footprints.geojson", "labels.csv", "one.csv", "two.csv"]
        table, labels = geopandas.read_file(city / "footprints.geojson"), read_labels(city)
        assert table.building_id.tolist() == labels.index.tolist() == [f"h{i}{suffix}" for i in range(BUILDINGS)]
        assert (table.height_m == 12).all()
        assert shapely.hausdorff_distance(table.to_crs(3035).geometry.to_numpy(), footprints()).max() < 2e-3
        assert labels.scenario.str.contains("local_failure").mean() == pytest.approx(0.7, abs=0.2)
        columns = ["severity_permille", "quadrant", "accepted", "mechanism", "scenario", "difficulty"]
        assert list(labels.columns) == columns


def test_geometry_epochs_and_gaps_are_the_users_own(out, folder):
    for name in ("one.csv", "two.csv"):
        given, made = read_points(folder / name), read_points(out / "town" / name)
        for column in ("easting", "northing", "height", "los"):
            np.testing.assert_allclose(getattr(made, column), getattr(given, column), atol=0.011)
        np.testing.assert_array_equal(made.epochs, given.epochs)
        np.testing.assert_array_equal(np.isnan(made.displacement), np.isnan(given.displacement))
        assert np.isnan(made.displacement).sum() == 4


def test_copies_differ_in_damage_and_share_no_noise(out):
    first, second = (read_labels(out / name) for name in ("town", "town--2"))
    rank = [part.severity_permille.rank().to_numpy() for part in (first, second)]
    assert abs(np.corrcoef(rank)[0, 1]) < 0.35
    noise = [np.diff(read_points(out / name / "one.csv").displacement[::EACH], axis=1) for name in ("town", "town--2")]
    alike = [np.corrcoef(*pair)[0, 1] for pair in zip(*noise, strict=True)]
    # One noise, but on half of the buildings the other way round; but for a gap's point, and what moves at once.
    assert np.median(np.abs(alike[1:])) > 0.9
    assert 10 < sum(value < 0 for value in alike[1:]) < 50


def test_the_same_seed_gives_the_same_bytes_and_another_copy_changes_none(out, folder, tmp_path):
    again = write(tmp_path / "a", folder, seed=4)
    assert sha256_folder(again) == sha256_folder(out / "town")
    assert sha256_folder(write(tmp_path / "b", folder, seed=5)) != sha256_folder(again)


def test_real_deformation_does_not_come_through(folder, tmp_path):
    """The same files with 60 mm on every point from the middle of the observation on: nearly the same city."""
    motion = 60 * np.clip(np.linspace(-1, 1, len(DATES)), 0, None)
    sources = (folder, fill(tmp_path / "moving", motion))
    cities = [write(tmp_path / source.name, source, seed=4) for source in sources]
    still, moved = (read_points(city / "one.csv").displacement for city in cities)
    assert np.sqrt(np.nanmean((still - moved) ** 2)) < 2.0
    assert abs(np.nanmean((still - moved)[:, -10:] - (still - moved)[:, :10])) < 1.0


def test_a_city_outside_of_the_products_crs_is_moved_as_one(tmp_path):
    """UTM on the southern half of the globe, as MintPy and others give it: distances stay, the line of sight too."""
    folder = tmp_path / "south"
    folder.mkdir()
    rng = np.random.default_rng(2)
    corner = np.array([334_000.0, 6_252_000.0]) + 40.0 * np.stack(np.divmod(np.arange(20), 5), axis=1)
    boxes = shapely.box(*corner.T, *np.add(corner, (18, 15)).T)
    geopandas.GeoDataFrame({"building_id": range(20)}, geometry=boxes, crs=32756).to_file(folder / "f.gpkg")
    place = np.repeat(corner, 8, axis=0) + rng.uniform(0, 15, (160, 2))
    table = pd.DataFrame({"id": range(160), "x": place[:, 0].round(3), "y": place[:, 1].round(3), "h": 5.0})
    table["le"], table["ln"], table["lu"] = 0.6, -0.1, np.sqrt(1 - 0.37)
    series = rng.normal(0, 2, (160, 60)).round(2)
    dates = [str(date).replace("-", "") for date in DATES[:60]]
    table = pd.concat([table, pd.DataFrame(series, columns=[f"D{date}" for date in dates])], axis=1)
    table.to_csv(folder / "points.csv", index=False)
    columns = ("point_id", "easting", "northing", "height", "los_east", "los_north", "los_up")
    described = {
        "columns": dict(zip(columns, table.columns, strict=False)),
        "units": {"displacement": "mm"},
        "positive": "towards",
        "epochs": "D%Y%m%d",
        "crs": "EPSG:32756",
    }
    write(tmp_path / "out", folder, "south", products={"points.csv": described})
    made = read_points(tmp_path / "out/south/points.csv")
    assert made.crs == "EPSG:3035"
    there = np.stack([made.easting, made.northing], axis=1)
    np.testing.assert_allclose(there - there[0], place - place[0], atol=0.02)
    np.testing.assert_allclose(made.los, np.tile([0.6, -0.1, 0.794], (160, 1)), atol=6e-4)
    houses = geopandas.read_file(tmp_path / "out/south/footprints.geojson").to_crs(3035).geometry.to_numpy()
    assert shapely.STRtree(houses).query_nearest(shapely.points(there), return_distance=True)[1].max() < 0.02


def test_a_folder_that_lacks_something_is_refused(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "town")
    (tmp_path / "town" / "houses.gpkg").unlink()
    with refuses("folder.not_one_footprints", "town", "none found"):
        write(tmp_path / "out", tmp_path / "town")


def test_of_an_ortho_product_the_vertical_is_borrowed_and_the_east_refused(folder, tmp_path):
    """The latter would be written as a product whose line of sight nobody reads."""
    for letter in "UE":
        target = tmp_path / letter
        target.mkdir()
        (target / "houses.gpkg").write_bytes((folder / "houses.gpkg").read_bytes())
        lines = [line.split(",") for line in (folder / "one.csv").read_text().splitlines()]
        other = ("los_", "temporal_", "incidence", "track_", "mp_type")
        kept = [n for n, name in enumerate(lines[0]) if not name.startswith(other)]
        (target / f"EGMS_L3_{letter}.csv").write_text(
            "\n".join(",".join(line[n] for n in kept) for line in lines) + "\n"
        )
    write(tmp_path / "out", tmp_path / "U", "up")
    np.testing.assert_array_equal(read_points(tmp_path / "out" / "up" / "EGMS_L3_U.csv").los[:, 2], 1)
    with refuses("borrowed.no_vertical", "EGMS_L3_E.csv"):
        write(tmp_path / "out", tmp_path / "E", "east")


def test_files_that_are_refused_are_told_of_before_other_cities_are_made(tmp_path, monkeypatch):
    monkeypatch.setattr("plumbline.simulate.stage._write_cities", lambda *_: pytest.fail("cities were made"))
    cities = {"c": {"band": "C", "buildings": 4, "seed": 1}}
    section = {"cities": cities, "showcase": cities["c"], "borrowed": {"town": {"folder": str(tmp_path / "gone")}}}
    with refuses("folder.missing", "gone", "simulate.borrowed.town"):
        simulate(Simulate.model_validate(section), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_name_for_two_cities_is_refused():
    small = {"band": "C", "buildings": 4, "seed": 1}
    sections = {"cities": {"town": small}, "showcase": small, "borrowed": {"town": {"folder": "town"}}}
    with pytest.raises(ValueError, match="cities and borrowed both name town"):
        Simulate.model_validate(sections)


@pytest.fixture
def slots(tmp_path, monkeypatch):
    """The stage, up to the borrowed cities; returns the slot of each."""

    def write(names, lent):
        written = {}
        monkeypatch.setattr(
            "plumbline.simulate.borrowed.city.write_borrowed",
            lambda _, name, about, slot, **rest: written.update({name: slot}),
        )
        for name in lent:
            (tmp_path / "data/borrowed" / f"{name}.yaml").write_text("folder: points\n")
        small = {"band": "C", "buildings": 4, "seed": 1}
        section = {
            "cities": {"c": small},
            "showcase": small,
            "borrowed": {name: {"folder": "points"} for name in names},
        }
        simulate(Simulate.model_validate(section), tmp_path / "out", 1)
        return written

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("plumbline.simulate.stage._write_cities", lambda *_: None)
    (tmp_path / "data/borrowed").mkdir(parents=True)
    return write


def test_a_further_city_changes_the_place_of_no_other(slots):
    alone, more = slots(["town"], []), slots(["town", "area"], ["lent_1", "a_delivery"])
    assert more["town"] == alone["town"]
    assert len(set(more.values())) == len(more) == 4
    assert min(more.values()) >= len(PLACES)


@pytest.mark.parametrize("name", ["Town", "my-town", "stadt_köln", "a b"])
def test_a_lent_city_with_a_name_that_params_would_refuse_is_refused(slots, name):
    with refuses("cities.wrong_name", f"data/borrowed/{name}.yaml", f"'{name}'"):
        slots([], [name])


def test_a_corner_that_no_wing_reaches_does_not_fall_by_metres():
    """Of footprints that a user brings: a thin L, whose strain is taken over its wings alone, and a plus."""
    thin = shapely.Polygon([(0, 0), (30, 0), (30, 2), (2, 2), (2, 30), (0, 30)])
    plus = shapely.union_all([shapely.box(-15, -6, 15, 6), shapely.box(-6, -15, 6, 15)])
    shapes = np.array([shapely.affinity.translate(s, 100 * i) for i, s in enumerate([thin, plus] * 40)], dtype=object)
    layout, _ = borrowed_layout(geopandas.GeoDataFrame(geometry=shapes, crs=3035))
    assert (layout.standing.sum(axis=1) >= 1).all()
    rng = np.random.default_rng(3)
    outline = own_outlines(layout.polygon, layout.frames)
    corners = Mechanisms(corner=1, end=0, step=0, bowl=0, bending=0, twice=0)
    failures = draw_local_failures(rng, layout.frames.side, layout.standing, 1.0, corners, outline=outline)
    assert np.abs(failures.first.drop).max() <= MOST_DROP_MM
    assert failures.failing.mean() > 0.5
    np.testing.assert_array_equal(failures.strains.severity_permille > 0, failures.first.drop != 0)
