"""Points between the tiles of a city: each goes to one building, however the city is cut."""

import numpy as np
import pytest
import shapely
from hypothesis import example, given
from hypothesis import strategies as st

from plumbline.params import Prepare
from plumbline.prepare.assignment.nearest import UNASSIGNED
from plumbline.prepare.assignment.owners import find_owners, owners_in_tile
from plumbline.sources.city.ingested import Neighbours
from plumbline.sources.city.tiles import HALO_M
from tests.prepare.made import make_track, terrace

PARAMS = Prepare(max_side_m=30.0)
number = st.floats(-20, 20).map(lambda value: round(value, 1))
house = st.tuples(number, number, st.floats(1, 40), st.floats(1, 40))


class Drawn:
    """As hypothesis's data, of an example."""

    def __init__(self, value):
        self.value = value

    def draw(self, _):
        return self.value


def seen(own, places, footprints):
    """Points (mask) and other footprints (mask) that the tile of the footprints `own` has, as `sources.tiles` cuts."""
    west, south, east, north = shapely.total_bounds(footprints[own])
    reach = shapely.box(west - HALO_M, south - HALO_M, east + HALO_M, north + HALO_M)
    near = shapely.dwithin(footprints, reach, HALO_M)
    near[own] = False
    return shapely.intersects_xy(reach, places), np.flatnonzero(near)


def owners_by_tile(cut, track, footprints, params):
    places = np.column_stack([track.easting, track.northing])
    found = np.full(len(track), UNASSIGNED)
    for tile in np.unique(cut):
        own = np.flatnonzero(cut == tile)
        points, row = seen(own, places, footprints)
        (owner,) = owners_in_tile(
            [track.take(points)], footprints[own], Neighbours(own, row, footprints[row]), params
        ).of
        taken = owner != UNASSIGNED
        rows = np.flatnonzero(points)[taken]
        assert (found[rows] == UNASSIGNED).all()
        found[rows] = own[owner[taken]]
    return found.tolist()


# As near to the house of another tile as belongs to it, to the last bit.
@example([(0.0, 0.0, 2.848734961970768, 1.0), (0.0, 0.0, 1.0, 1.0)], [(-2.0, 0.0)], Drawn([0, 1]))
@given(st.lists(house, min_size=1, max_size=6), st.lists(st.tuples(number, number), min_size=1, max_size=20), st.data())
def test_every_cut_of_the_city_gives_each_point_the_same_building(houses, places, data):
    footprints = np.array([shapely.box(x, y, x + a, y + b) for x, y, a, b in houses])
    place = np.array(places)
    moves = np.outer(10 * np.cos(17 * place[:, 0]), np.linspace(0, 1, 60))
    track = make_track("a", place, np.zeros(len(place)), (0.6, 0.0, 0.8), moves)
    (whole,) = find_owners([track], footprints, PARAMS).of
    cut = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(houses), max_size=len(houses))))
    assert owners_by_tile(cut, track, footprints, PARAMS) == whole.tolist()


@pytest.mark.parametrize("seed", range(5))
def test_every_cut_of_a_terrace_gives_each_point_to_the_house_it_moves_with(seed):
    tracks, footprints, _ = terrace(seed, houses=12)
    found = find_owners(tracks, footprints, PARAMS)
    assert found.moved > 10
    cut = np.random.default_rng(seed).integers(0, 3, len(footprints))
    for number, track in enumerate(tracks):
        alone = find_owners([track], footprints, PARAMS).of[0].tolist()
        assert owners_by_tile(cut, track, footprints, PARAMS) == alone, number
