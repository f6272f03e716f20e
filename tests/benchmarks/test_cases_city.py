"""A published surface stands in the simulated city, and its points move with it."""

import numpy as np
import pytest
import shapely

from benchmarks.cases.city import NOBODY, Subject, build_city
from benchmarks.cases.surfaces import Surface

pytestmark = pytest.mark.slow
SINKING = Surface(shapely.box(-10, -5, 10, 5), 9.0, lambda x, y: -80.0 + 0 * x)


@pytest.fixture(scope="module")
def built():
    return build_city("X", [Subject(SINKING, 6), Subject(SINKING, 4)], 3)


def test_every_copy_stands_among_neighbours(built):
    assert (built.subject == 0).sum() == 6
    assert (built.subject == 1).sum() == 4
    assert (built.subject == NOBODY).sum() > 100
    polygon = built.city.footprints.geometry
    assert polygon[built.subject == 0].area.to_numpy() == pytest.approx(200)
    apart = shapely.STRtree(polygon.buffer(-0.01)).query(polygon.buffer(-0.01), predicate="intersects")
    assert (apart[0] == apart[1]).all()


def test_points_show_the_surface(built):
    shown = []
    for track in built.city.points:
        at = shapely.points(track.easting, track.northing)
        for number, footprint in enumerate(built.city.footprints.geometry):
            on = shapely.contains(footprint.buffer(-2), at)
            if built.subject[number] != NOBODY:
                change = track.displacement[on][:, -8:].mean(1) - track.displacement[on][:, :8].mean(1)
                shown.extend(change / track.los[on, 2])
    assert np.median(shown) == pytest.approx(-80, abs=12)
