"""Parts of buildings in a file that has the buildings, too."""

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.footprints.buildings import read_buildings
from tests.refusals import warned
from tests.sources.footprints.test_cases import BASE, CASES, CRS
from tests.sources.make import FEWER

FOLDER = CASES / "building-parts"
OUTLINE = shapely.box(4520000, 2090000, 4520020, 2090010)
HALVES = [shapely.box(4520000, 2090000, 4520010, 2090010), shapely.box(4520010, 2090000, 4520020, 2090010)]


def read(tmp_path, geometry, **columns):
    path = tmp_path / "drawn.gpkg"
    geopandas.GeoDataFrame(columns, geometry=geometry, crs=CRS).to_file(path)
    return read_buildings(path, CRS)


@pytest.mark.parametrize("name", ["osm_parts.geojson", "theme=buildings"])
def test_parts_that_a_file_names_so_are_passed_over(name, caplog):
    with caplog.at_level("INFO"):
        found = read_buildings(FOLDER / name, CRS)
    base = read_buildings(BASE / "fp.gpkg", CRS)
    assert shapely.hausdorff_distance(found.geometry.to_numpy(), base.geometry.to_numpy()).max() < 0.02
    assert "72 parts of buildings are passed over; their buildings are drawn, too." in caplog.text
    assert found["building_id"].nunique() == 36
    assert found.attrs["assigned_ids"] == 0


def test_others_that_are_covered_are_named_in_a_warning(caplog):
    assert read_buildings(FOLDER / "nested.gpkg", CRS).attrs["covered"] == 36
    assert warned(caplog, "footprints.nested", "nested.gpkg: 36 ", "72 others", "feature 1 (H000)")


COLUMNS = [
    (1, {"building": ["yes", None, None], "building:part": [None, "yes", "roof"]}),
    (1, {"building": ["yes", "no", ""], "building_part": ["no", "yes", "yes"]}),
    (1, {"BUILDING": ["house", None, None], "building_p": [None, "yes", "yes"]}),
    (1, {"type": ["building", "building_part", "building_part"]}),
    (1, {"id": ["a", "b", "c"], "building_id": [None, "a", "a"]}),
    (1, {"id": [7, 8, 9], "parent_id": [None, 7, 7]}),
    (1, {"kind": ["building", "building_part", "building_part"]}),
    (1, {"id": [7, 8, 9], "root_id": [7, 7, 7]}),
    (1, {"CLASS": ["yes", "building:part", "building:part"]}),
    (1, {"is_building_part": [False, True, True]}),
    (1, {"hide_3d": [True, None, None]}),
    (1, {"has_parts": [True, False, False]}),
    (1, {"CODE": ["Building", "Courtyard", "Courtyard"]}),
    (3, {"building": ["yes"] * 3, "building:part": [None, "yes", "yes"]}),
    (3, {"id": ["a", "b", "c"], "building_id": ["1", "2", "3"]}),
    (3, {"building_id": ["a", "b", "c"], "parent_id": ["x", "a", "a"]}),
    (3, {"kind": ["building", "party", "building parts"]}),
    (3, {"has_parts": [False, False, True]}),
    (3, {"building": [1.0, np.nan, 2.0], "parts": [1, 2, 3]}),
]
"""How many buildings an outline and its halves are, by their columns."""


@pytest.mark.parametrize(
    ("count", "columns"), COLUMNS, ids=lambda value: " ".join(value) if isinstance(value, dict) else str(value)
)
def test_files_name_parts_in_several_ways(tmp_path, count, columns):
    found = read(tmp_path, [OUTLINE, *HALVES], **columns)
    assert len(found) == count
    assert count == 3 or found.geometry[0].equals(OUTLINE)
    assert count == 3 or found.attrs["covered"] == 0


def test_parts_of_no_outline_are_buildings(tmp_path):
    """A file may have parts alone, or some whose building is not drawn."""
    apart = shapely.box(4520100, 2090000, 4520110, 2090010)
    found = read(tmp_path, [OUTLINE, HALVES[0], apart], type=["building", "building_part", "building_part"])
    assert found.geometry.to_list() == [OUTLINE, apart]
    assert len(read(tmp_path, HALVES, type=["building_part"] * 2)) == 2


@FEWER
@given(st.floats(0.05, 0.95), st.floats(0, 0.9))
def test_a_small_one_inside_takes_few_points_and_is_not_worth_a_warning(tmp_path_factory, share, away):
    """A shed in the outline of a house, or in its courtyard."""
    inner = shapely.box(
        4520000 + 20 * away * (1 - share), 2090000, 4520000 + 20 * (away * (1 - share) + share), 2090010
    )
    found = read(tmp_path_factory.mktemp("in"), [OUTLINE, inner], name=["a", "b"])
    assert found.attrs["covered"] == int(0.5 <= share < 0.9)


def test_a_courtyard_of_its_own_is_no_building(tmp_path):
    """As in Los Angeles County's data, where the building has a hole there."""
    court = shapely.box(4520005, 2090003, 4520015, 2090007)
    found = read(tmp_path, [OUTLINE.difference(court), court], CODE=["Building", "Courtyard"])
    assert found.geometry.to_list() == [OUTLINE.difference(court)]
    assert len(read(tmp_path, [court], CODE=["Courtyard"])) == 1  # all that there is


@pytest.mark.parametrize(("east", "count"), [(2, 1), (9, 1), (11, 0), (0.005, 0)])
def test_one_building_of_two_sources_is_named_in_a_warning(tmp_path, caplog, east, count):
    apart = shapely.box(4520100, 2090000, 4520110, 2090010)
    found = read(tmp_path, [OUTLINE, apart, shapely.affinity.translate(OUTLINE, east)], name=["a", "b", "c"])
    assert (found.attrs["overlapping"], found.attrs["covered"]) == (count, 0)
    assert found.attrs["drawn_twice"] == int(east < 0.01)
    assert len(warned(caplog, "footprints.overlapping", "feature 3 (B0000003)")) == count
