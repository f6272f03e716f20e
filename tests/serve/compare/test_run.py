"""`plumbline compare` on the base case, with a house that sinks by levelling alone."""

import re
from pathlib import Path
from xml.etree import ElementTree

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely

from plumbline.core.errors import InputError
from plumbline.pretrained import PACKAGE
from plumbline.serve.compare.run import place_points, warn_of_datum
from plumbline.serve.request import Request
from plumbline.sources.city.in_memory import CityInMemory
from plumbline.sources.city.labels import read_labels
from plumbline.sources.crs import GLOBE, transformer
from plumbline.sources.levelling import Levelling
from tests.refusals import warned
from tests.serve.map.town import document_in
from tests.tiny import run_cli

BASE = Path(__file__).parents[2] / "fixtures" / "cases" / "base"
SUNK, SUNK_MM = "H000", 40.0


@pytest.fixture(scope="module")
def levels():
    """A long table: bolts along the walls of all houses, which stand still, from a benchmark that rises by 10 mm."""
    footprints = geopandas.read_file(BASE / "fp.gpkg")
    rng, rows = np.random.default_rng(1), []
    for name, shape in zip(footprints["building_id"], footprints.geometry, strict=True):
        corners = shapely.get_coordinates(shape.exterior)
        for number, (east, north) in enumerate(
            np.concatenate([corners[:-1] * (1 - part) + corners[1:] * part for part in (0, 1 / 3, 2 / 3)])
        ):
            for date, moved in (("2019-08-10", 0.0), ("2023-07-10", -10.0 - SUNK_MM * (name == SUNK))):
                height = 40 + (moved + rng.normal(0, 0.3)) / 1e3
                rows.append((f"{name}-{number}", east, north, date, round(height, 5)))
    return pd.DataFrame(rows, columns=["point", "easting", "northing", "date", "height_m"])


def compare(folder, levels, *more, output="compare.gpkg"):
    levels.to_csv(folder / "levels.csv", index=False)
    return run_cli(
        *("compare", "--points", BASE / "asc.csv", BASE / "des.csv", "--buildings", BASE / "fp.gpkg"),
        *("--levelling", "levels.csv", "--output", output, *more),
        cwd=folder,
    )


@pytest.fixture(scope="module")
def done(levels, tmp_path_factory):
    folder = tmp_path_factory.mktemp("compare")
    ended = compare(folder, levels, "--labels", "labels.csv", "--map", "map.html")
    assert not ended.code, ended.err
    return folder, ended


def test_the_table_tells_where_both_agree(done, levels):
    folder, ended = done
    table = geopandas.read_file(folder / "compare.gpkg", layer="compared").set_index("building_id")
    points = geopandas.read_file(folder / "compare.gpkg", layer="levelling")
    assert sorted(name for name, _ in pyogrio.list_layers(folder / "compare.gpkg")) == ["compared", "levelling"]
    assert len(points) == levels["point"].nunique()
    assert points["change_mm"].median() == pytest.approx(-10, abs=0.2)
    assert table.loc[SUNK, "settlement_difference_mm"] == pytest.approx(SUNK_MM, abs=8)
    agrees = table["settlement_agrees"].dropna().astype(bool)
    assert len(agrees) > 30
    assert not agrees[SUNK]
    assert (table["begins"] == "2019-08-10").all()
    assert f"settlement of {agrees.sum()} of {len(agrees)} buildings" in ended.out
    # A constant error is warned of, though all agree.
    assert re.search(r"WARNING levels\.csv: .*\+\d\.\d mm", ended.err)
    assert "mm less settlement everywhere" in ended.out or "mm more settlement everywhere" in ended.out


@pytest.mark.parametrize(("datum_mm", "is_warned"), [(0.4, False), (-2.5, True), (np.nan, False)])
def test_only_a_datum_that_matters_is_warned_of(caplog, datum_mm, is_warned):
    warn_of_datum(Path("levels.csv"), datum_mm, 0.07)
    assert bool(warned(caplog, "levelling.datum_offset", "levels.csv", "0.1 mm")) == is_warned


def test_the_picture_has_a_dot_for_each_figure(done):
    folder, _ = done
    table = geopandas.read_file(folder / "compare.gpkg", layer="compared")
    drawing = ElementTree.fromstring((folder / "compare.svg").read_text(encoding="utf-8"))
    dots = list(drawing.iter("{http://www.w3.org/2000/svg}circle"))
    assert len(dots) == sum(table[f"{name}_agrees"].notna().sum() for name in ("settlement", "tilt", "severity")) + 2


def test_the_map_has_the_points_beside_their_buildings(done):
    folder, _ = done
    found = [one["properties"] for one in document_in(folder / "map.html")["levelling"]["features"]]
    table = geopandas.read_file(folder / "compare.gpkg", layer="compared").set_index("building_id")
    sunk = [one for one in found if one["building_id"] == SUNK]
    assert len(found) == 12 * len(table)
    assert len(sunk) == 12
    for name in ("settlement_mm", "levelled_settlement_mm", "settlement_difference_mm"):
        assert sunk[0][name] == pytest.approx(table.loc[SUNK, name], abs=1e-4)
    assert sunk[0]["settlement_agrees"] is False
    assert sunk[0]["change_mm"] == pytest.approx(-10 - SUNK_MM, abs=1.5)


def test_labels_are_those_of_adapt(done):
    folder, _ = done
    labels = read_labels(folder / "labels.csv")
    assert len(labels) >= 20
    assert labels["severity_permille"].max() < 0.5  # all stand upright or sink as a whole


def test_a_mistyped_height_is_named_and_left_out(levels, tmp_path, done):
    typed = levels.assign(height_m=levels["height_m"].where(levels.index != 25, 4.1))
    name = typed["point"][25]
    ended = compare(tmp_path, typed, output="compare.csv")
    assert f"point {name} changed by -35," in ended.err
    assert f"left out as misread: {name}." in ended.out
    own, other = pd.read_csv(tmp_path / "compare.csv"), geopandas.read_file(done[0] / "compare.gpkg", layer="compared")
    assert (own["levelled_points"] < other["levelled_points"]).sum() == 1
    np.testing.assert_allclose(own["levelled_settlement_mm"], other["levelled_settlement_mm"], atol=0.3)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"easting": 0.0}, "within 2 m of a building"),
        ({"building_id": "X9"}, "building_id X9"),
        ({"date": "2010-01-01"}, "2010-01-01"),
    ],
)
def test_levels_of_elsewhere_are_refused(levels, tmp_path, change, said):
    ended = compare(tmp_path, levels.assign(**change), output="compare.csv")
    assert ended.code == InputError.exit_code
    assert said in ended.err
    assert not (tmp_path / "compare.csv").exists()


@pytest.fixture(scope="module")
def city():
    footprints = geopandas.read_file(BASE / "fp.gpkg")
    return CityInMemory([], footprints)


def test_points_are_placed_by_degrees_metres_or_name(city, levels):
    own = levels.drop_duplicates("point").reset_index(drop=True)
    metres = own[["easting", "northing"]].to_numpy()
    degrees = np.column_stack(transformer("EPSG:3035", GLOBE).transform(*metres.T))
    expected = np.repeat(np.arange(36), 12)
    names = city.footprints["building_id"].to_numpy(object)[expected]
    nowhere, unnamed = np.full(metres.shape, np.nan), np.full(len(own), "", object)
    for place, building in ((metres, unnamed), (degrees, unnamed), (nowhere, names), (metres + 50, names)):
        values = np.zeros((len(own), 2))
        read = Levelling(
            Path("l.csv"), own["point"].to_numpy(object), building, place, np.zeros(2, "M8[D]"), values, values
        )
        placed = place_points(read, city, Request([], BASE / "fp.gpkg", PACKAGE))
        assert placed.row.tolist() == expected.tolist()
        near = np.isfinite(placed.xy).all(1)
        np.testing.assert_allclose(placed.xy[near], metres[near], atol=0.01)
        assert near.all() == (building is unnamed)
