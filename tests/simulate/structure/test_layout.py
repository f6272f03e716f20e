import numpy as np
import pytest
import shapely

from plumbline.core.compass import frames
from plumbline.simulate.radar.acquisition import BANDS, draw_acquisitions, range_and_azimuth
from plumbline.simulate.radar.scatterers import ASTRAY, GROUND, STRUCTURE, draw_scatterers, position_errors
from plumbline.simulate.structure.layout import DISTRICT_BUILDINGS, CityLayout, draw_layout, draw_plan, draw_town
from tests.simulate.made import small_town

LOOK = np.array([[0.97, 0.25], [-0.97, 0.25]])
"""Of an ascending and a descending track."""


@pytest.fixture(scope="module")
def layout():
    return small_town(np.random.default_rng(4), 600)


def test_buildings_are_valid_and_within_the_ranges(layout):
    assert shapely.is_valid(layout.polygon).all()
    assert 6 - 1e-6 <= layout.frames.side.min() < 8
    assert 50 < layout.frames.side.max() <= 60 + 1e-6
    assert 3 <= layout.height.min() < layout.height.max() <= 40
    assert np.abs(layout.frames.centre).max() < layout.extent / 2


def test_parts_of_a_town_stand_beside_each_other():
    """Two parts of whole districts, drawn one without the other."""
    plans = [draw_plan(np.random.default_rng(seed), count) for seed, count in ((1, 4 * DISTRICT_BUILDINGS), (2, 90))]
    town = draw_town(np.random.default_rng(3), 4 * DISTRICT_BUILDINGS + 90, max(plan.radius for plan in plans))
    parts = [
        draw_layout(np.random.default_rng(4), plan, town, first) for plan, first in zip(plans, (0, 4), strict=True)
    ]
    polygon = np.concatenate([part.polygon for part in parts])
    pairs = shapely.STRtree(polygon).query(polygon, predicate="intersects")
    assert (pairs[0] == pairs[1]).all()
    assert parts[0].extent == parts[1].extent == town.extent
    assert np.abs(np.concatenate([part.frames.centre for part in parts])).max() < town.extent / 2


def test_most_are_rectangles_and_some_are_not(layout):
    fill = shapely.area(layout.polygon) / layout.frames.side.prod(axis=1)
    assert (fill > 1 - 1e-6).mean() == pytest.approx(0.67, abs=0.06)
    assert (fill < 0.85).any()
    assert (layout.standing.sum(axis=1) >= 2).all()
    assert (~layout.standing).any(axis=1).mean() == pytest.approx(0.18, abs=0.05)
    assert (fill[~layout.standing.all(axis=1)] < 1 - 1e-3).all()


def test_some_stand_wall_to_wall(layout):
    pairs = shapely.STRtree(layout.polygon).query(shapely.buffer(layout.polygon, 0.2), predicate="intersects")
    assert 0.1 < len(set(pairs[0][pairs[0] != pairs[1]])) / len(layout.polygon) < 0.6


@pytest.mark.parametrize(("band", "mean"), [("C", 12), ("X", 46)])
def test_points_of_a_building(layout, band, mean):
    points = draw_scatterers(np.random.default_rng(6), layout, BANDS[band], LOOK)
    counts = np.bincount(points.building[points.kind != GROUND], minlength=600)
    fewest, most = BANDS[band].points
    assert fewest <= counts.min() < counts.max() <= most
    assert counts.mean() == pytest.approx(mean, rel=0.1)
    extra = (points.kind == GROUND).sum() / counts.sum()
    assert 0.07 < extra <= 0.2
    assert (points.kind == ASTRAY).sum() / counts.sum() == pytest.approx(0.02, abs=0.01)
    assert BANDS[band].noise_mm[0] <= points.noise.min() < points.noise.max() <= BANDS[band].noise_mm[1]


def test_points_are_where_their_kind_says(layout):
    points = draw_scatterers(np.random.default_rng(7), layout, BANDS["X"], LOOK)
    own = shapely.distance(layout.polygon[points.building], shapely.points(points.east_north))
    on = points.kind == STRUCTURE
    assert own[points.kind != GROUND].max() < 1  # in the inner corner of an L a wall point may stand before the wall
    assert (own[points.kind != GROUND] < 1e-6).mean() > 0.98
    assert own[points.kind == GROUND].min() > 0.5
    share = points.height[on] / layout.height[points.building[on]]
    assert share.min() >= 0
    assert share.max() <= 1
    assert (share < 0.5).mean() > 0.1
    one_track = [len(set(points.track[points.building == b])) == 1 for b in range(600)]
    assert np.mean(one_track) == pytest.approx(0.1, abs=0.04)


def test_walls_are_seen_from_the_side_of_the_satellite():
    """Rectangles in the compass, seen from the east and from the south: the points of a track are on its walls."""
    corner = 100.0 * np.arange(300)[:, None] * np.ones(2)
    polygon = shapely.box(*corner.T, *(corner + np.array([24, 16])).T)
    height = np.full(300, 9.0)
    layout = CityLayout(polygon, height, 0 * height, frames(polygon), np.ones((300, 4), bool), 40_000.0)
    points = draw_scatterers(np.random.default_rng(9), layout, BANDS["X"], np.array([[-1.0, 0.0], [0.0, 1.0]]))
    on = points.kind == STRUCTURE
    place = points.east_north[on] - layout.frames.centre[points.building[on]]
    half = layout.frames.side[points.building[on]] / 2
    edge = np.stack(
        [half[:, 0] - place[:, 0], half[:, 0] + place[:, 0], half[:, 1] - place[:, 1], half[:, 1] + place[:, 1]]
    ) / half.max(1)
    near = edge < 0.1  # east, west, north, south
    for track, faced in ((0, 0), (1, 3)):
        share = near[:, points.track[on] == track].mean(1)
        others = np.delete(share, faced)
        # A tenth of the roof lies there too, and half of the walls' points are on any wall.
        assert share[faced] > 2 * others.max()
        assert np.ptp(others) < 0.1


@pytest.mark.parametrize("band", ["C", "X"])
def test_position_errors_are_wide_in_range_and_narrow_in_azimuth(layout, band):
    rng = np.random.default_rng(8)
    points = draw_scatterers(rng, layout, BANDS[band], LOOK)
    tracks = draw_acquisitions(rng, BANDS[band], 0, 2.0)
    axes = np.stack([range_and_azimuth(track.heading_deg) for track in tracks])
    rise = np.tan(np.radians([track.incidence_deg for track in tracks]))[points.track]
    error = position_errors(
        rng, building=points.building, track=points.track, axes=axes[points.track], rise=rise, band=BANDS[band]
    )
    low, high = BANDS[band].position_m
    k = 2 * np.log(high / low)
    expected = low * np.sqrt(2 * (np.exp(k) - 1 - k) / k**2)  # root mean square; 2 (1 - b) is the density of NEAR
    for number, track in enumerate(tracks):
        at = points.track == number
        in_range, in_azimuth = range_and_azimuth(track.heading_deg) @ error[at, :2].T
        assert in_range.std() == pytest.approx(expected, rel=0.15)
        assert 0.2 < in_azimuth.std() / in_range.std() < 0.6
        # Half of the height's error, on average, goes up with the distance from the satellite.
        slope = (error[at, 2] * in_range).mean() / (in_range**2).mean()
        assert slope / rise[at][0] == pytest.approx(0.5, abs=0.12)
        apart = error[at, 2] - slope * in_range
        assert 0.3 * BANDS[band].height_m[0] < apart.std() < BANDS[band].height_m[1]
