"""What is read off a field: moving areas, and how footprints move against those around them."""

from types import SimpleNamespace

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.fields.prepare.grid import Grid
from plumbline.fields.restore import areas as areas_of_field
from plumbline.fields.restore.areas import COLUMNS, field_areas
from plumbline.fields.restore.field import BANDS, Blend
from plumbline.fields.restore.footprints import _compare_with_neighbours, _FootprintSamples, save_table

GRID = Grid(4_321_000.0, 3_210_000.0, 10.0, 40, 60)
YEARS = 2.0


class Bands:
    """A blended field, in memory."""

    _grid, thinned = GRID, Blend.thinned

    def __init__(self, **components):
        self.values = np.full((len(BANDS), GRID.rows, GRID.columns), np.nan, np.float32)
        for name, (mean, half) in components.items():
            first = BANDS.index(f"{name}_mm")
            self.values[first : first + 4] = mean, half / 2, mean - half, mean + half

    def rows(self, first, last):
        return self.values[:, first:last]


def block(rows, columns):
    cells = np.zeros((GRID.rows, GRID.columns), bool)
    cells[rows, columns] = True
    return cells


SUNK, UNSURE = block(slice(10, 22), slice(10, 16)), block(slice(10, 22), slice(30, 36))
RISEN, LONE = block(slice(30, 34), slice(30, 34)), block(slice(4, 5), slice(40, 56))
LEVEL = 3.0


@pytest.fixture
def field():
    cells = np.array([[12, 12], [5, 30]])  # columns and rows
    place = [GRID.left, GRID.top] + 10 * (cells + 0.5) * [1, -1]
    found = SimpleNamespace(east_north=place, change=np.array([LEVEL, 99.0]), side=np.array([1, 0]))
    settings = SimpleNamespace(line_side=1)
    return SimpleNamespace(observations=found, grid=GRID, crs="EPSG:3035", years=YEARS, settings=settings)


@pytest.fixture(params=[512, 7])
def by_rows(request, monkeypatch):
    monkeypatch.setattr(areas_of_field, "ROWS", request.param)


def test_areas_are_cells_that_move_by_more_than_they_may_err(field, by_rows):
    half = np.where(UNSURE, 30.0, 2.0)
    up = LEVEL - 12.0 * SUNK - 12.0 * UNSURE + 8.0 * RISEN - 12.0 * LONE
    up[38:] = np.nan
    house = shapely.box(GRID.left + 100, GRID.top - 120, GRID.left + 110, GRID.top - 110)
    houses = geopandas.GeoDataFrame(geometry=[house], crs=field.crs)
    found = field_areas(field, Bands(up=(up, half), east=(0 * up, half)), houses)
    assert tuple(found.columns) == COLUMNS
    assert found["direction"].tolist() == ["up", "up"]
    np.testing.assert_allclose(found["displacement_mm"], [-12, 8], atol=1e-4)  # not by the level
    np.testing.assert_allclose(found["rate_mm_year"], [-6, 4], atol=1e-4)
    assert found["cells"].tolist() == [SUNK.sum(), RISEN.sum()]
    assert found["points"].tolist() == [1, 0]
    assert found["buildings"].tolist() == [1, 0]
    assert found.geometry[0].area == pytest.approx(100 * SUNK.sum(), rel=0.15)


@pytest.mark.parametrize("suffix", [".gpkg", ".geojson"])
def test_where_nothing_moves_the_table_is_empty(field, tmp_path, suffix):
    still = np.zeros((GRID.rows, GRID.columns))
    found = field_areas(field, Bands(los=(still + LEVEL, still + 2)))
    assert found.empty
    assert "buildings" not in found
    save_table(found, tmp_path / f"a{suffix}", "moving_areas")
    assert geopandas.read_file(tmp_path / f"a{suffix}").empty


def test_along_the_line_of_sight_the_points_say_what_does_not_move(field):
    edge = np.where(SUNK, LEVEL - 9.0, np.nan)  # all that one direction sees alone
    found = field_areas(field, Bands(los=(edge, edge * 0 + 2)))
    assert found["direction"].tolist() == ["los"]
    np.testing.assert_allclose(found["displacement_mm"], -9, atol=1e-4)


def test_what_neighbours_share_says_nothing_of_a_footprint_against_them():
    draw = np.random.default_rng(0)
    place = np.array([[0.0, 0], [30, 0], [0, 30], [30, 30], [60, 0], [500, 0]])
    moves = np.array([-9.0, 1, 2, 3, 40, 7])
    shared, own = 20 * draw.standard_normal((64, 1)), draw.standard_normal((64, 6))
    samples = moves + shared + own - own.mean(axis=0)
    cells = np.ones((1, 3), bool)
    footprints = {
        number: _FootprintSamples("up", cells, np.tile(samples[:, [number]], 3), 1.645) for number in range(6)
    }
    footprints[7] = _FootprintSamples("los", cells, np.full((64, 3), 99.0), 1.645)
    found = _compare_with_neighbours(footprints, np.vstack([place, place[:2]]), 100.0)
    first = found[0]
    assert first["against_neighbours_mm"] == pytest.approx(-9 - 2.5, abs=0.3)
    # The footprint's own error, and a little of its neighbours'.
    width = first["against_neighbours_mm_high"] - first["against_neighbours_mm_low"]
    assert 2 * 1.645 < width < 2 * 1.645 * 1.6
    assert np.isnan(found[5]["against_neighbours_mm"])  # alone
    assert np.isnan(found[7]["against_neighbours_mm"])  # in another direction
