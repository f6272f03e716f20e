import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.simulate.radar.acquisition import BANDS, draw_acquisitions, draw_kept, range_and_azimuth
from plumbline.sources.points.track import los_from_heading


def test_line_of_sight_of_a_real_product():
    """Ustica, EGMS L2b track 117: its own columns, to their precision."""
    np.testing.assert_allclose(los_from_heading(38.97, -8.94), (-0.621, -0.098, 0.777), atol=6e-4)
    np.testing.assert_allclose(los_from_heading(37.31, 191.42), (0.594, -0.120, 0.795), atol=6e-4)


@given(st.floats(20, 50), st.floats(-360, 720))
def test_line_of_sight_is_a_unit_vector_across_the_flight(incidence, heading):
    los = los_from_heading(incidence, heading)
    ground_range, azimuth = range_and_azimuth(heading)
    assert np.linalg.norm(los) == pytest.approx(1)
    assert los[:2] @ azimuth == pytest.approx(0, abs=1e-9)
    assert los[:2] @ ground_range == pytest.approx(-np.sin(np.deg2rad(incidence)))


@given(st.integers(8, 400), st.integers(0, 1000))
def test_gaps_take_5_to_20_percent_and_never_an_end(epochs, seed):
    kept = draw_kept(np.random.default_rng(seed), epochs)
    assert len(kept) == epochs
    assert kept[0]
    assert kept[-1]
    assert 0.05 * epochs - 0.5 <= (~kept).sum() <= 0.2 * epochs + 0.5


@pytest.mark.parametrize("band", ["C", "X"])
def test_tracks_look_from_both_sides(band):
    for seed in range(30):
        up, down = draw_acquisitions(np.random.default_rng(seed), BANDS[band], 3, 2.5)
        assert up.los(np.zeros((1, 2)))[0, 0] < -0.3
        assert down.los(np.zeros((1, 2)))[0, 0] > 0.3
        for track in (up, down):
            assert set(np.diff(track.days) % track.revisit_days) == {0.0}
            assert 2.3 * 365 < track.days[-1] <= 2.5 * 365.25
            assert track.track_angle % 360 == pytest.approx(track.heading_deg % 360)


def test_cities_have_tracks_of_their_own():
    numbers = [t.track for slot in range(80) for t in draw_acquisitions(np.random.default_rng(0), BANDS["C"], slot, 1)]
    assert len(set(numbers)) == 160
    assert max(numbers) <= 175


def test_incidence_grows_away_from_the_satellite():
    up, _ = draw_acquisitions(np.random.default_rng(1), BANDS["C"], 0, 1)
    near, far = up.incidence(np.array([[-1000.0, 0.0], [1000.0, 0.0]]))  # ascending looks east
    assert 0.05 < far - near < 0.2
