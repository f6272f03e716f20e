import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from plumbline.sources.city.tiles import HALO_M, cells, make_tiles, tile_name
from tests.refusals import refuses


@given(seed=st.integers(0, 10_000), side=st.floats(100, 3000), away=st.sampled_from([-5e5, 0.0, 4e6]))
def test_a_tile_and_its_halo_hold_every_point_near_its_buildings(seed, side, away):
    rng = np.random.default_rng(seed)
    centre, half = away + rng.uniform(-2000, 2000, (30, 2)), rng.uniform(1, 40, (30, 2))
    bounds = np.column_stack([centre - half, centre + half])
    tiles, index = make_tiles(centre, bounds, side)
    east, north = away + rng.uniform(-2200, 2200, (2, 3000))
    own = cells(east, north, side)
    halo = dict(tiles.halo(east, north, own))
    assert len(set(map(tile_name, np.unique(own)))) == len(np.unique(own))
    for building in range(30):
        west, south, right, top = bounds[building] + HALO_M * np.array([-1, -1, 1, 1])
        near = np.flatnonzero((east >= west) & (east <= right) & (north >= south) & (north <= top))
        tile = tiles.cell[index[building]]
        held = np.r_[np.flatnonzero(own == tile), halo.get(int(tile), np.zeros(0, int))]
        assert len(set(held)) == len(held)
        assert set(near) <= set(held)


def test_tiles_are_named_by_column_and_row():
    cell = cells(np.array([4_598_010.0, -1.0]), np.array([1_739_000.0, -5001.0]), 2500.0)
    assert [tile_name(int(c)) for c in cell] == ["x1839_y695", "x-1_y-3"]


def test_a_footprint_longer_than_a_tile_is_refused():
    centre = np.array([[500.0, 500.0]])
    with refuses("tiles.too_narrow", "ingest.tile_m", "100 m"):
        make_tiles(centre, np.array([[0.0, 480.0, 1000.0, 520.0]]), 100.0)
