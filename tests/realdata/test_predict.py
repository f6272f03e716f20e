"""The whole way, from files as the European Ground Motion Service hands them out to judgements and a map."""

import re
import warnings
from pathlib import Path

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.prepare.abstention import STATUSES
from plumbline.serve.predictions import read_predictions
from tests.sources.points.opening import read_points
from tests.tiny import run_cli

USTICA = Path(__file__).parents[3] / "shared" / "data" / "ustica"
POINTS = (USTICA / "EGMS_L2b_022_0845_IW2_VV_2020_2024_1.zip", USTICA / "EGMS_L2b_117_0227_IW2_VV_2020_2024_1.zip")
FOOTPRINTS = USTICA / "footprints_synthetic.geojson"
BUILDINGS = 120
"""Of the 568: those about the middle of the town."""
pytestmark = [
    pytest.mark.realdata,
    pytest.mark.skipif(not USTICA.is_dir(), reason="the real files are not there (../shared/data)"),
]


@pytest.fixture(scope="module")
def run(package, tmp_path_factory):
    """The command a user would type, and where it wrote."""
    folder = tmp_path_factory.mktemp("ustica")
    town = geopandas.read_file(FOOTPRINTS)
    place = shapely.get_coordinates(town.to_crs(3035).centroid)
    nearest = np.argsort(np.hypot(*(place - np.median(place, axis=0)).T))[:BUILDINGS]
    town.iloc[nearest].to_file(folder / "footprints.geojson")
    points = [word for path in POINTS for word in ("--points", path)]
    words = ["predict", *points, "--buildings", folder / "footprints.geojson", "--model", package]
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", DeprecationWarning)  # as a process of its own would
        ended = run_cli(*words, "--output", folder / "out.gpkg", "--map", folder / "map.html", cwd=folder)
    assert [str(one.message) for one in warned] == []
    return ended, folder


def test_all_footprints_are_judged_or_abstained_from(run):
    ended, folder = run
    assert ended.code == 0, ended.err
    table = read_predictions(folder / "out.gpkg")
    assert len(table) == BUILDINGS
    assert table["building_id"].is_unique
    assert set(table["status"]) <= set(STATUSES)
    judged = table[table["status"] == "ok"]
    assert np.isfinite(judged[["severity_low", "severity_permille", "severity_high"]].to_numpy()).all()


def test_what_is_said_at_the_end_adds_up(run):
    ended, folder = run
    (last,) = [line for line in ended.err.splitlines() if " buildings: " in line]
    counts = {status: int(count) for count, status in re.findall(r"(\d+) ([a-z_]+)", last) if status in STATUSES}
    assert counts == read_predictions(folder / "out.gpkg")["status"].value_counts().to_dict()
    assert sum(counts.values()) == BUILDINGS
    assert "Warning" not in ended.err


def test_points_are_counted_where_the_files_have_them(run):
    _, folder = run
    table = read_predictions(folder / "out.gpkg")
    tracks = [read_points(path) for path in POINTS]
    points = shapely.points(*(np.concatenate([getattr(t, name) for t in tracks]) for name in ("easting", "northing")))
    footprints = geopandas.read_file(folder / "footprints.geojson").to_crs("EPSG:3035").geometry
    inside = shapely.STRtree(points).query(footprints, predicate="contains")[0]
    # A point a little outside of a footprint counts too.
    assert (table["n_points"].to_numpy() >= np.bincount(inside, minlength=BUILDINGS)).all()
    assert (table["n_points"] >= 5).sum() > 0.9 * BUILDINGS
    abstained = table["status"] == "insufficient_points"
    assert abstained[table["n_points"] < 5].all()
    assert abstained[table["n_points"] >= 5].mean() < 0.05  # those whose points lie on one line
