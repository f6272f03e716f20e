"""Footprints at 180 degrees: one building each, whatever their longitudes count from."""

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.sources.footprints.buildings import read_buildings
from plumbline.sources.globe import cut, to_degrees
from tests.refusals import warned, warning_keys
from tests.sources.footprints.test_cases import CASES

CRS = "EPSG:32760"
EAST, NORTH = 819_787.0, 8_140_000.0
"""180 degrees in that zone."""


def houses():
    """One on each side, and one across."""
    shapes = [shapely.box(EAST + x - 8, NORTH, EAST + x + 8, NORTH + 10) for x in (-50, 0, 50)]
    return geopandas.GeoDataFrame({"building_id": list("abc")}, geometry=shapes, crs=CRS)


def degrees(change):
    frame = houses()
    found = [change(shape) for shape in to_degrees(frame.geometry)]
    return geopandas.GeoDataFrame(frame[["building_id"]], geometry=found, crs=4326)


def turned(from_, shape):
    """Longitudes within a turn from `from_` on."""
    return shapely.transform(shape, lambda at: np.column_stack([(at[:, 0] - from_) % 360 + from_, at[:, 1]]))


@pytest.mark.parametrize(
    "change",
    [
        lambda shape: cut(np.array([shape]))[0],  # RFC 7946
        lambda shape: turned(-180, shape),  # around the Earth, as programs write that do not cut
        lambda shape: turned(0, shape),
        lambda shape: turned(-360, shape),
        lambda shape: shape,  # beyond 180
        lambda shape: turned(-180, shape) if shape.bounds[2] < 180 else turned(-360, shape),  # beyond -180
        lambda shape: shapely.force_3d(turned(-180, shape), 4.0),
    ],
    ids=["cut", "around", "0 to 360", "-360 to 0", "beyond 180", "beyond -180", "heights"],
)
def test_the_same_buildings_without_a_warning(tmp_path, caplog, change):
    (tmp_path / "f.geojson").write_text(degrees(change).to_json())
    found = read_buildings(tmp_path / "f.geojson", CRS)
    assert found["building_id"].tolist() == list("abc")
    assert shapely.get_num_geometries(found.geometry.to_numpy()).tolist() == [1, 1, 1]
    assert shapely.hausdorff_distance(found.geometry.to_numpy(), houses().geometry.to_numpy()).max() < 0.05
    assert not warning_keys(caplog)


def test_the_web_s_mercator_ends_there_too(tmp_path, caplog):
    degrees(lambda shape: cut(np.array([shape]))[0]).to_crs("EPSG:3857").to_file(tmp_path / "f.gpkg")
    found = read_buildings(tmp_path / "f.gpkg", CRS)
    assert shapely.hausdorff_distance(found.geometry.to_numpy(), houses().geometry.to_numpy()).max() < 0.05
    assert not warning_keys(caplog)


def test_the_case_of_fiji(caplog):
    found = read_buildings(CASES / "fiji-geojson" / "fp_fj.geojson", CRS)
    assert (found.attrs["repaired"], found.attrs["multipart"]) == ([], 0)
    assert not warned(caplog, "footprints.repaired")
