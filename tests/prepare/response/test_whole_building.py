"""How far a building moves and tilts as a whole, by closed forms."""

from dataclasses import replace

import geopandas
import numpy as np
import pytest
import shapely

from plumbline.core.compass import Frames
from plumbline.prepare.response.whole_building import whole_buildings
from plumbline.prepare.scatterers import Scatterers
from plumbline.prepare.series.temporal_basis import curves, unknown_courses
from plumbline.prepare.series.trend import estimate_trend
from plumbline.serve.place.surroundings import whole_columns

WHEN, YEARS = np.linspace(0, 1, 90), 3.0
ANGLE = 0.4
LOS = np.array([[-0.6, -0.1, 0.79], [0.6, -0.1, 0.79]])


def seen_points(up, tilt, curve=0, noise=0.0, points=40, *, buildings=1, seed=0, known=True, common=0.0):
    """Scatterers of buildings that move `up` (mm) and rise `tilt` (mm/m) to the east and north, along a curve."""
    rng = np.random.default_rng(seed)
    building = np.repeat(np.arange(buildings), points)
    track = np.tile(np.arange(points) % 2, buildings)
    turn = np.array([[np.cos(ANGLE), np.sin(ANGLE)], [-np.sin(ANGLE), np.cos(ANGLE)]])
    xy, height = rng.uniform(-9, 9, (len(building), 2)), rng.uniform(0, 12, len(building))
    los = np.column_stack([LOS[track, :2] @ turn.T, LOS[track, 2]])
    own = turn @ np.asarray(tilt, float)
    change = los[:, 2] * (up + xy @ own) - los[:, :2] @ own * height
    parts = []
    for number in (0, 1):
        here = track == number
        series = change[here, None] * curves(WHEN)[curve] + noise * rng.normal(size=(here.sum(), len(WHEN)))
        series += common * rng.normal(size=(buildings, len(WHEN)))[building[here]]
        parts.append((here, estimate_trend(series.astype(np.float32), WHEN, YEARS, building[here])))

    def joined(name):
        first = getattr(parts[0][1], name)
        whole = np.empty((len(building), *first.shape[1:]), first.dtype)
        for here, trend in parts:
            whole[here] = getattr(trend, name)
        return whole

    course = unknown_courses(len(building)) if not known else (joined("course"), joined("course_root"))
    return Scatterers(
        building, track, np.arange(len(building)), xy, height, los, joined("change"), joined("change_se"),
        joined("line") / YEARS, joined("line_se") / YEARS, joined("common_se") / YEARS, *course,
    )  # fmt: skip


def measured(scatterers, buildings):
    frame = Frames(np.zeros((buildings, 2)), np.full(buildings, ANGLE), np.full((buildings, 2), 18.0))
    return whole_buildings(scatterers, frame, np.zeros((buildings, 2)), np.tile(LOS, (buildings, 1, 1)), YEARS)


def observed(up, tilt, curve=0, buildings=1, **about):
    return measured(seen_points(up, tilt, curve, buildings=buildings, **about), buildings)


@pytest.mark.parametrize("known", [True, False])
def test_a_steady_movement_is_found_as_it_is(known) -> None:
    found = observed(-20.0, (1.0, -0.4), known=known)
    np.testing.assert_allclose(found.change[0], -20 * 0.79, atol=0.2)
    np.testing.assert_allclose(found.tilt[0], [1.0, -0.4], atol=0.02)


@pytest.mark.parametrize("curve", range(11))
def test_a_movement_with_another_course_is_found_within_its_error(curve) -> None:
    found = observed(-30.0, (2.0, 0.0), curve, noise=1.0)
    off = np.abs(found.change[0] + 30 * 0.79) / np.sqrt(found.variance[0])
    assert off.max() < 2.5
    assert np.abs(found.tilt[0] - [2.0, 0.0]).max() < 2.5 * np.sqrt(found.tilt_covariance[0].max())


def with_few(scatterers, building, few, factor):
    """The same, but the second track has only `few` scatterers of one building, which move `factor` times as far."""
    few_rows = np.flatnonzero((scatterers.building == building) & (scatterers.track == 1))[:few]
    kept = (scatterers.building != building) | (scatterers.track == 0)
    kept[few_rows] = True
    change, course = scatterers.change.copy(), scatterers.course.copy()
    change[few_rows] *= factor
    course[few_rows] *= factor
    return replace(scatterers, change=change, course=course).take(kept)


@pytest.mark.parametrize("few", [1, 2])
def test_few_still_scatterers_of_a_direction_do_not_halve_the_movement(few) -> None:
    """They may be on the ground beside the building: the other direction's movement along its line of sight counts."""
    points = with_few(seen_points(-80.0, (0.0, 0.0), noise=1.5, buildings=12), 4, few, 0.0)
    whole = measured(points, 12)
    assert whole.agreeing[4].tolist() == [20, few]
    boxes = [shapely.box(30 * i, 0, 30 * i + 18, 18) for i in range(12)]
    columns = whole_columns(whole, geopandas.GeoDataFrame(geometry=boxes, crs="EPSG:32633"), 100.0)
    off = (columns["settlement_mm"][4] + 80 * LOS[0, 2]) / columns["settlement_std_mm"][4]
    assert abs(off) < 2
    assert columns["settlement_direction"].tolist() == ["line of sight" if i == 4 else "vertical" for i in range(12)]


def test_few_scatterers_that_move_with_the_building_leave_its_movement_vertical() -> None:
    points = with_few(seen_points(-80.0, (0.0, 0.0), noise=1.5, buildings=12), 4, 1, 1.0)
    boxes = [shapely.box(30 * i, 0, 30 * i + 18, 18) for i in range(12)]
    columns = whole_columns(measured(points, 12), geopandas.GeoDataFrame(geometry=boxes, crs="EPSG:32633"), 100.0)
    assert columns["settlement_direction"][4] == "vertical"
    assert abs(columns["settlement_mm"][4] + 80) < 2 * columns["settlement_std_mm"][4]


def test_scatterers_that_do_not_share_the_motion_are_not_counted() -> None:
    points = seen_points(-20.0, (1.0, 0.0), noise=0.5)
    change = points.change.copy()
    change[[0, 2, 5]] += 40
    assert measured(replace(points, change=change), 1).agreeing.tolist() == [[18, 19]]


def test_few_scatterers_say_nothing() -> None:
    assert np.isnan(observed(-9.0, (0.0, 0.0), points=2).change).all()
    assert np.isnan(observed(-9.0, (0.0, 0.0), noise=40.0, points=4).tilt).all()


def test_intervals_hold_what_they_say_of_steady_movements() -> None:
    found = observed(-0.5, (0.1, 0.1), noise=2.0, points=16, buildings=300, common=1.0)
    for off, error in (
        (found.change + 0.5 * 0.79, np.sqrt(found.variance)),
        (found.tilt - 0.1, np.sqrt(np.diagonal(found.tilt_covariance, axis1=1, axis2=2))),
    ):
        assert 0.86 < np.mean(np.abs(off) < 1.645 * error) < 0.98


def test_damage_is_hidden_by_a_lean_under_points_that_tell_little() -> None:
    """Also where the tilt is too unsure to be given, or the points tell nothing at all."""
    whole = observed(0, (0, 0), buildings=5)._replace(
        lean=np.array([10.1, 10.1, 9.0, 10.1, np.nan]), resolution=np.array([1.6, 1.4, 9.0, np.nan, 9.0])
    )
    assert whole.hides_damage.tolist() == [True, False, False, True, False]
    steep = observed(0, (12, 16))
    assert steep.lean == pytest.approx(20, rel=0.05)
    assert np.hypot(*steep.tilt.T) == pytest.approx(steep.lean)
