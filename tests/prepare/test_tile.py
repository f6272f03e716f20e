"""Points between the tiles of a city: each goes to one building, however the city is cut."""

import numpy as np
import shapely
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plumbline.params import Prepare
from plumbline.prepare.assign import UNASSIGNED, assign_points
from plumbline.prepare.odd import outsized
from plumbline.prepare.tile import leave_to_neighbours
from plumbline.sources.ingested import Neighbours

from .made import make_track

PARAMS = Prepare(max_side_m=30.0)
number = st.floats(-20, 20).map(lambda value: round(value, 1))
house = st.tuples(number, number, st.floats(1, 40), st.floats(1, 40))


class Drawn:
    """As hypothesis's data, of an example."""

    def __init__(self, value):
        self.value = value

    def draw(self, _):
        return self.value


# As near to the house of another tile as belongs to it, to the last bit.
@example([(0.0, 0.0, 2.848734961970768, 1.0), (0.0, 0.0, 1.0, 1.0)], [(-2.0, 0.0)], Drawn([0, 1]))
@settings(max_examples=60)
@given(st.lists(house, min_size=1, max_size=6), st.lists(st.tuples(number, number), min_size=1, max_size=20), st.data())
def test_every_cut_of_the_city_gives_each_point_the_same_building(houses, places, data):
    footprints = np.array([shapely.box(x, y, x + a, y + b) for x, y, a, b in houses])
    place = np.array(places)
    track = make_track("a", place, np.zeros(len(place)), (0.6, 0.0, 0.8), np.zeros((len(place), 60)))
    whole = assign_points(*place.T, footprints, PARAMS.buffer_m, outsized(footprints, PARAMS))
    cut = np.array(data.draw(st.lists(st.integers(0, 2), min_size=len(houses), max_size=len(houses))))
    found = np.full(len(place), UNASSIGNED)
    for tile in np.unique(cut):
        own, row = np.flatnonzero(cut == tile), np.flatnonzero(cut != tile)
        kept = leave_to_neighbours(track, footprints[own], Neighbours(own, row, footprints[row]), PARAMS)
        rows = np.array([int(name[1:]) for name in kept.point_id], int)
        mine = outsized(footprints[own], PARAMS)
        owner = assign_points(kept.easting, kept.northing, footprints[own], PARAMS.buffer_m, mine)
        taken = owner != UNASSIGNED
        assert (found[rows[taken]] == UNASSIGNED).all()
        found[rows[taken]] = own[owner[taken]]
    assert found.tolist() == whole.tolist()
