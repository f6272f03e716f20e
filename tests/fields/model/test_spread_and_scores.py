"""Spread and scores against their formulas; NumPy alone."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from plumbline.core.errors import InputError
from plumbline.fields.model import scores
from plumbline.fields.model.sampling import (
    BOTH,
    LINE,
    Samples,
    component_distances,
    distances,
    draw_samples,
    seen_components,
    summarise,
)
from plumbline.fields.model.slopes import Slopes, describe_slopes, gradient
from plumbline.fields.model.spread import (
    COMPONENTS,
    LEAST_MM,
    PLACES,
    Component,
    Scale,
    Spread,
    describe_places,
    read_spread,
)
from plumbline.fields.prepare.conditions import CHANNELS, MAPS, MIRRORS, describe, mirrored
from plumbline.fields.prepare.covariance import Covariance
from tests.fields.prepare.test_conditions import make_maps
from tests.refusals import refuses

COUNT = len(PLACES)
KNOWN = Covariance(5.0, 2.0, 150.0, 1.2, 0.5)
SCALE = Scale(
    low=[-2.0] * COUNT,
    high=[3.0] * COUNT,
    centre=[1.0] * COUNT,
    unit=[2.0] * COUNT,
    weights=[0.4] + [0.0] * (COUNT - 1),
    bends=[0.6] + [0.0] * (COUNT - 1),
)
SPREAD = Spread(
    scale=SCALE,
    components={
        name: Component(gain=0.8, base=0.1 * number, reach=1.5 + number) for number, name in enumerate(COMPONENTS)
    },
    farthest_m=80.0,
    slopes=Slopes(base=-0.5, weights=[0.5, 0.4, 0.3]),
)


def test_intervals_are_as_wide_as_the_place_says_and_the_deviation_follows():
    places = np.zeros((COUNT, 5))
    places[0] = [-9.0, -2.0, 1.0, 2.0, 9.0]  # below the range, at its end, centre, above it, beyond the range
    places[1] = 7.0  # has no weight
    process = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    factor = np.exp(0.1 + np.array([-0.6, -0.6, 0.0, 0.5, 1.0]))
    half = SPREAD.half_width("east", process, places)
    np.testing.assert_allclose(half, np.hypot(factor * process, LEAST_MM))
    np.testing.assert_allclose(SPREAD.deviation("east", half), half / 2.5)


def test_places_are_described_without_a_unit_and_alike_from_every_side():
    maps = make_maps(2)
    scatter, away = np.abs(maps[2]) / 3, component_distances(maps, BOTH, 10.0)
    plain = describe_places(maps, 0, scatter, away, KNOWN)
    assert plain.shape == (COUNT, 32, 32)
    assert np.isfinite(plain).all()
    in_mm = [k for k, name in enumerate(MAPS) if not name.startswith(("count", "los"))]
    larger = maps.copy()
    larger[in_mm] *= 10
    larger_known = KNOWN._replace(up_mm=10 * KNOWN.up_mm, east_mm=10 * KNOWN.east_mm)
    np.testing.assert_allclose(describe_places(larger, 0, 10 * scatter, away, larger_known), plain, atol=2e-3)
    for mirror in range(MIRRORS):
        flip = (slice(None), slice(None, None, -1 if mirror & 1 else 1), slice(None, None, -1 if mirror & 2 else 1))
        own = describe_places(mirrored(maps, mirror), 0, scatter[flip[1:]], away[flip[1:]], KNOWN)
        np.testing.assert_allclose(own, plain[flip], atol=2e-3)
    # East has its own movement before the points are known.
    rise = describe_places(maps, 1, scatter, away, KNOWN._replace(east_mm=4.0)) - describe_places(
        maps, 1, scatter, away, KNOWN
    )
    assert [name for name, one in zip(PLACES, rise, strict=True) if one.any()] == ["known"]
    # A point that contradicts the process is seen around it, and in no figure that does not ask the points.
    row, column = np.argwhere(maps[MAPS.index("count_west")] > 0)[0]
    wrong = maps.copy()
    wrong[MAPS.index("change_west"), row, column] += 30
    rise = (describe_places(wrong, 0, scatter, away, KNOWN) - plain)[:, row, column]
    named = dict(zip(PLACES, rise, strict=True))
    assert named["misfit"] > named["misfit_whole"] > 0
    for name in ("distance", "scatter", "slope", "error", "points", "contrast", "offset", "known", "length", "noise"):
        assert named[name] == 0, name


def test_a_spread_is_read_as_it_was_written_or_refused(tmp_path):
    path = tmp_path / "spread.json"
    path.write_text(SPREAD.model_dump_json())
    assert read_spread(path) == SPREAD
    content = SPREAD.model_dump()
    for change, key, place in (
        ({"farthest_m": 0}, "spread.other_version", "greater than 0"),
        ({"farthest_m": None}, "spread.other_version", "valid number"),
        ({"scale": content["scale"] | {"weights": [1.0]}}, "spread.other_version", "each kind"),
        ({"scale": content["scale"] | {"unit": [0.0] * COUNT}}, "spread.other_version", "above 0"),
        ({"scale": content["scale"] | {"places": ["height"] * COUNT}}, "spread.other_version", "other figures"),
        ({"components": {"up": content["components"]["up"]}}, "spread.other_components", "up, east, los"),
        ({"slopes": {"base": 0.0, "weights": [1.0]}}, "spread.other_version", "scatter, width"),
        ({"more": 1}, "spread.other_version", "Extra"),
    ):
        path.write_text(json.dumps(content | change))
        with refuses(key, path, place):
            read_spread(path)
    path.write_text("[")
    with pytest.raises(InputError, match=r"spread\.json"):
        read_spread(path)
    with pytest.raises(InputError, match=r"none\.json"):
        read_spread(tmp_path / "none.json")


def test_samples_count_as_much_as_they_are_worth():
    rng = np.random.default_rng(0)
    maps, field = make_maps(4), rng.normal(size=(6, 2, 32, 32)).astype(np.float32)
    mean, away = maps[:2], np.full((32, 32), 10.0)
    drawn = Samples(BOTH, field, maps)
    half = drawn.weighted(SPREAD)
    np.testing.assert_allclose(half.field_mm, mean + 0.8 * (field - mean), rtol=1e-4, atol=1e-4)
    one = summarise(half, "east", SPREAD, away, KNOWN)
    own = half.field_mm[:, 1]
    np.testing.assert_allclose(one.mean, own.mean(axis=0))
    places = describe_places(maps, 1, own.std(axis=0, ddof=1), away, KNOWN)
    np.testing.assert_allclose(one.half_width, SPREAD.half_width("east", maps[3], places))
    np.testing.assert_allclose(one.deviation, one.half_width / 2.5)
    line = Samples(LINE, field, maps).weighted(SPREAD)
    np.testing.assert_array_equal(line.of("los")[0], half.field_mm[:, 0])  # its gain is that of up here
    np.testing.assert_allclose(line.field_mm[:, 1], field[:, 1], rtol=1e-4, atol=1e-4)


def test_distances_are_to_cells_with_scatterers():
    counts = np.zeros((5, 6))
    assert np.isinf(distances(counts, 10.0)).all()
    counts[2, 1] = 3
    assert distances(counts, 10.0)[4, 4] == pytest.approx(10 * np.hypot(2, 3))
    maps = np.zeros((len(MAPS), 5, 6), np.float32)
    maps[MAPS.index("count_west")] = counts
    assert seen_components(maps) == LINE
    assert component_distances(maps, LINE, 10.0)[4, 4] == pytest.approx(10 * np.hypot(2, 3))
    maps[MAPS.index("count_east"), 4, 4] = 1
    maps[MAPS.index("los_east_east"), 4, 4] = 0.6
    assert seen_components(maps) == BOTH
    # Up and east need both sides: the farther one counts.
    assert component_distances(maps, BOTH, 10.0)[4, 4] == pytest.approx(10 * np.hypot(2, 3))
    assert component_distances(maps, BOTH, 10.0)[2, 1] == pytest.approx(10 * np.hypot(2, 3))


class Still:
    """Says of each mirror image what it is told of the mean, and nothing else."""

    alphas = np.linspace(0.99, 0.01, 10)

    def denoise(self, noisy, step, conditions):
        return np.broadcast_to(conditions[CHANNELS.index("shape_east")], noisy.shape).astype(np.float32)


def test_samples_of_mirror_images_are_mirrored_back():
    maps = make_maps(3)
    found = draw_samples(Still(), maps, BOTH, steps=3, samples=6, eta=1.0, rng=np.random.default_rng(0))
    assert found.field_mm.shape == (6, 2, 32, 32)
    told = describe(maps)
    beyond = (found.field_mm - told.mean) / told.scale[:, None, None]
    # Of east the sign turns with the mirror, and what is told of it as well: all images agree.
    for one in beyond:
        np.testing.assert_allclose(one[1], told.channels[CHANNELS.index("shape_east")], atol=1e-2)
    assert np.abs(np.diff(beyond[:, 0], axis=0)).max() > 0.1


@given(st.floats(-30, 30), st.floats(0.05, 20))
def test_the_ranked_probability_score_is_its_integral(error, deviation):
    x = np.linspace(min(-error, 0) - 12 * deviation, max(-error, 0) + 12 * deviation, 40_001)
    below = stats.norm.cdf(x, 0, deviation) - (x >= -error)
    closed = scores.normal_crps(np.array(error), np.array(deviation))
    assert closed == pytest.approx(np.trapezoid(below**2, x), rel=2e-3, abs=1e-4)
    assert closed == pytest.approx(scores.normal_crps(np.array(-error), np.array(deviation)))


def field(seed=0, size=24):
    rng = np.random.default_rng(seed)
    return np.cumsum(np.cumsum(rng.normal(size=(size, size)), axis=0), axis=1)


@given(st.floats(0.01, 50), st.floats(-100, 100))
def test_scores_of_images(factor, level):
    true = factor * field() + level
    assert scores.ssim(true, true) == pytest.approx(1)
    other = true + factor * field(1) / 5
    assert scores.ssim(other, true) < 0.999
    assert scores.ssim(3 * other, 3 * true) == pytest.approx(scores.ssim(other, true), rel=1e-6)  # no unit


def test_the_gradient_of_a_plane_is_its_slope():
    east, north = np.meshgrid(10 * np.arange(9.0), 10 * np.arange(7.0))
    plane = 0.3 * east - 0.4 * north + 5
    np.testing.assert_allclose(gradient(plane, 10.0), 0.5)
    assert scores.gradient_error(plane, 0 * plane, 10.0) == pytest.approx(0.5)
    plane[3, 3] = np.nan
    assert np.isnan(gradient(plane, 10.0)).sum() == 4


def test_the_interval_of_a_slope_grows_with_what_the_samples_leave_open():
    east = np.tile(10 * np.arange(9.0), (7, 1))
    tilts = np.array([0.1, 0.2, 0.3, 0.4])
    samples, half = tilts[:, None, None] * east, np.full(east.shape, 3.0)
    figures = describe_slopes(samples, half, 10.0)
    least = 0.002
    expected = [np.log(tilts.std(ddof=1) + least), np.log(3.0), np.log(0.25 + least)]
    np.testing.assert_allclose(figures, np.broadcast_to(np.array(expected)[:, None, None], figures.shape))
    wanted = np.exp(-0.5) * (tilts.std(ddof=1) + least) ** 0.5 * 3**0.4 * (0.25 + least) ** 0.3
    np.testing.assert_allclose(SPREAD.slopes.half_width(figures), wanted)
    # As a vector: samples that tilt by as much to either side agree in their steepest slope, and know nothing of it.
    turned = np.stack([east, -east, np.zeros_like(east)])
    assert (describe_slopes(turned, half, 10.0)[0] > np.log(0.9)).all()
    assert np.isfinite(describe_slopes(0 * samples, half, 10.0)).all()
