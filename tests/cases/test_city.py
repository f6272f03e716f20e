"""A published surface stands in the simulated city, and its points move with it."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.cases.city import NOBODY, Subject, build_city, followed
from plumbline.cases.judge import course_of
from plumbline.cases.rows import History
from plumbline.cases.surfaces import Surface

SINKING = Surface(shapely.box(-10, -5, 10, 5), 9.0, lambda x, y: -80.0 + 0 * x, "", "")


@pytest.fixture(scope="module")
def built():
    return build_city("X", [Subject(SINKING, 6), Subject(SINKING, 4, seen="lost")], 3)


def test_every_copy_stands_among_neighbours(built):
    assert (built.subject == 0).sum() == 6
    assert (built.subject == 1).sum() == 4
    assert (built.subject == NOBODY).sum() > 100
    polygon = built.city.footprints.geometry
    assert polygon[built.subject == 0].area.to_numpy() == pytest.approx(200)
    apart = shapely.STRtree(polygon.buffer(-0.01)).query(polygon.buffer(-0.01), predicate="intersects")
    assert (apart[0] == apart[1]).all()


def test_points_show_the_surface_and_lost_ones_are_not_there(built):
    shown = []
    for track in built.city.points:
        at = shapely.points(track.easting, track.northing)
        for number, footprint in enumerate(built.city.footprints.geometry):
            on = shapely.contains(footprint.buffer(-2), at)
            if built.subject[number] == 0:
                change = track.displacement[on][:, -8:].mean(1) - track.displacement[on][:, :8].mean(1)
                shown.extend(change / track.los[on, 2])
            if built.subject[number] == 1:
                assert on.sum() < 3  # those of neighbours that are astray
    assert np.median(shown) == pytest.approx(-80, abs=12)


def test_the_same_seed_gives_the_same_points(built):
    again = build_city("X", [Subject(SINKING, 6), Subject(SINKING, 4, seen="lost")], 3)
    for one, other in zip(built.city.points, again.city.points, strict=True):
        assert np.array_equal(one.displacement, other.displacement)


@given(st.lists(st.floats(-60, 60), min_size=2, max_size=20), st.sampled_from([31.0, 55.5]))
def test_a_phase_follows_changes_below_a_quarter_wavelength_only(values, wavelength):
    moved = np.array([values])
    found = followed(moved, wavelength)
    lost = (moved - found) / (wavelength / 2)
    assert lost == pytest.approx(np.round(lost), abs=1e-9)
    assert np.abs(np.diff(found)).max() <= wavelength / 4 + 1e-9
    assert found[0, 0] == moved[0, 0]


@pytest.mark.parametrize("fast", [0.0, 1.0, 3.0])
def test_two_speeds_become_a_course(fast):
    history = History("a", "b", "followed", 5.0, 3.0, 15.0, fast, None)
    course = course_of(history, 3.0)
    if course.kind == "faster":
        assert course.turn == pytest.approx(2 / 3)
        assert course.reached == pytest.approx(6 / 21)
    assert (course.kind == "faster") == (fast == 1.0)
