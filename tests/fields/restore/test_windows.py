"""Windows and files of fields: every cell once, nothing at the seams, a Cloud Optimized GeoTIFF."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.fields.prepare.grid import Grid
from plumbline.fields.restore.field import MIN_WINDOW, OVERLAP, WINDOW, Blend, offset, ramp, windows
from plumbline.fields.restore.outputs import write_cog

SIZE = st.integers(1, 230)


@given(SIZE, SIZE, st.sampled_from([OVERLAP, 32]))
def test_windows_cover_any_grid_once(rows, columns, multiple):
    grid = Grid(0.0, 0.0, 10.0, rows, columns)
    weight = np.zeros((rows + WINDOW, columns + WINDOW))
    places = set()
    for part in windows(grid, multiple=multiple):
        places.add(place := offset(part, grid))
        assert place[0] < max(rows - OVERLAP, 1)
        assert place[1] < max(columns - OVERLAP, 1)
        for size in (part.rows, part.columns):  # the network halves them
            assert MIN_WINDOW <= size <= WINDOW
            assert not size % multiple
        own = ramp()[: part.rows, : part.columns]
        weight[place[0] : place[0] + part.rows, place[1] : place[1] + part.columns] += own
    assert len(places) == len(list(windows(grid)))
    assert (weight[:rows, :columns] > 0).all()
    inner = weight[OVERLAP : max(OVERLAP, rows - OVERLAP), OVERLAP : max(OVERLAP, columns - OVERLAP)]
    np.testing.assert_allclose(inner, 1, rtol=1e-5)


@given(SIZE, SIZE)
def test_a_constant_stays_what_it_is(rows, columns):
    grid = Grid(0.0, 0.0, 10.0, rows, columns)
    with TemporaryDirectory() as folder:
        blend = Blend(Path(folder), 2, grid)
        assert np.isnan(blend.rows(0, rows)).all()
        for window in windows(grid):
            values = np.full((2, window.rows, window.columns), 3.25, np.float32)
            values[1, :5] = np.nan
            blend.add(window, values)
        whole = blend.rows(0, rows)
        np.testing.assert_allclose(whole[0], 3.25, rtol=1e-6)
        assert np.isnan(whole[1, :5]).all()  # nobody says anything there
        assert np.isfinite(whole[1, 5:]).all()
        np.testing.assert_array_equal(blend.rows(rows // 2, rows), whole[:, rows // 2 :])


def stepped(first, last, columns=700, bands=2):
    east, north = np.meshgrid(np.arange(columns), np.arange(first, last))
    field = (north + 1000.0 * east).astype(np.float32)
    field[north < 3] = np.nan
    return np.stack([field] * bands)


def test_a_field_is_a_cloud_optimized_geotiff(tmp_path):
    rasterio = pytest.importorskip("rasterio")
    grid = Grid(4_321_000.0, 3_210_000.0, 10.0, 1100, 700)
    (tmp_path / "work").mkdir()
    place = {"crs": "EPSG:3035", "work": tmp_path / "work", "out": tmp_path / "f.tif"}
    write_cog(stepped, ["up_mm", "east_mm"], grid, tags={"A": "b"}, **place)
    with rasterio.open(tmp_path / "f.tif") as read:
        assert read.driver == "GTiff"
        assert read.tags(ns="IMAGE_STRUCTURE")["LAYOUT"] == "COG"
        assert read.profile["tiled"]
        assert read.block_shapes == [(512, 512)] * 2
        assert read.overviews(1)
        assert read.descriptions == ("up_mm", "east_mm")
        assert np.isnan(read.nodata)
        assert read.crs.to_epsg() == 3035
        assert read.tags()["A"] == "b"
        assert (read.bounds.left, read.bounds.top) == (grid.left, grid.top)
        assert read.res == (10.0, 10.0)
        np.testing.assert_array_equal(read.read(), stepped(0, 1100))
        np.testing.assert_array_equal(read.read_masks(1)[:3], 0)
    assert [path.name for path in (tmp_path / "work").iterdir()] == []
