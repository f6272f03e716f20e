import geopandas
import numpy as np
import pytest
import shapely

from plumbline.sources.footprints.reproject import reprojected

BOLOGNA = shapely.box(11.34, 44.49, 11.341, 44.491)


def frame(crs):
    return geopandas.GeoDataFrame({"n": [7]}, geometry=[BOLOGNA], crs="EPSG:4326").to_crs(crs)


@pytest.mark.parametrize("crs", ["EPSG:23032", "EPSG:4230", "EPSG:3003", "EPSG:32632", "EPSG:25832", "EPSG:3857"])
@pytest.mark.parametrize("wanted", ["EPSG:3035", "EPSG:32632"])
def test_a_place_stays_where_it_is(crs, wanted):
    """From ED50 to EPSG:3035 PROJ by itself is 129 m off here."""
    moved, direct = reprojected("f", frame(crs), wanted), frame(wanted)
    assert (moved.crs, moved["n"].tolist()) == (direct.crs, [7])
    apart = shapely.get_coordinates(moved.geometry) - shapely.get_coordinates(direct.geometry)
    assert np.abs(apart).max() < 10  # metres, by which the ways that there are differ


def test_without_a_way_the_datum_is_taken_for_the_other_and_that_is_said(caplog):
    """A CRS of an ellipsoid alone, as old files have it, says nothing of a datum."""
    house = shapely.box(6e5, 5e6, 6e5 + 20, 5e6 + 10)
    there = geopandas.GeoDataFrame(geometry=[house], crs="+proj=utm +zone=32 +ellps=intl")
    moved = reprojected("f.gpkg", there, "EPSG:3035")
    assert "f.gpkg: no way is known from" in caplog.text
    assert "footprints may lie up to 100 m off" in caplog.text
    assert np.isfinite(moved.total_bounds).all()
