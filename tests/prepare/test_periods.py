import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.prepare.scatterers import check_epochs, period_overlap
from tests.prepare.made import ASCENDING, los_of, make_track
from tests.refusals import refuses, warned


def observed(name, start, days, count=20):
    epochs = np.datetime64(start, "D") + np.linspace(0, days, count).astype(int)
    return make_track(name, np.zeros((1, 2)), [0.0], los_of(ASCENDING)[0], np.zeros((1, count)), epochs=epochs)


@pytest.mark.parametrize(("days", "kept"), [(499, [0]), (500, [0, 1])])
def test_a_track_has_to_cover_half_of_the_common_period(days, kept, caplog):
    with caplog.at_level("WARNING", "plumbline"):
        found = period_overlap([observed("long", "2020-01-01", 1000), observed("short", "2020-01-01", days)])
    assert found.used.tolist() == kept
    places = ("short: left out", "2020-01-01 to 2021-05-14", "49.9 %")
    assert bool(warned(caplog, "tracks.short_period", *places)) == (kept == [0])


def test_of_periods_with_nothing_in_common_the_longest_stays_and_of_equal_ones_the_latest():
    short, long = observed("a", "2023-01-01", 400), observed("b", "2017-01-01", 800)
    assert period_overlap([short, long]).used.tolist() == [1]
    old, new = observed("a", "2017-01-01", 800), observed("b", "2021-01-01", 800)
    assert period_overlap([old, new]).used.tolist() == [1]
    assert period_overlap([new, old]).used.tolist() == [0]
    found = period_overlap([old, new])
    assert (found.start, found.end) == (new.epochs[0], new.epochs[-1])
    np.testing.assert_allclose(found.share, [0, 1])


@given(st.lists(st.tuples(st.integers(0, 4000), st.integers(30, 3000)), min_size=1, max_size=6))
def test_every_kept_track_covers_half_and_one_always_is_whatever_the_order(spans):
    tracks = [observed(str(i), np.datetime64("2010-01-01") + start, days) for i, (start, days) in enumerate(spans)]
    found = period_overlap(tracks)
    assert len(found.used)
    assert (found.share[found.used] >= 0.5).all()
    assert found.start == min(tracks[i].epochs[0] for i in found.used)
    assert found.end == max(tracks[i].epochs[-1] for i in found.used)
    again = period_overlap(tracks[::-1])
    assert sorted(spans[::-1][i] for i in again.used) == sorted(spans[i] for i in found.used)


def test_tracks_with_too_few_epochs_or_epochs_out_of_order_are_refused():
    check_epochs([observed("a", "2020-01-01", 100, count=8)], 8)
    with refuses("epochs.too_few", "track a: 1 epoch ", "8 or more"):
        check_epochs([observed("a", "2020-01-01", 0, count=1)], 8)
    with refuses("epochs.too_few", "track b: 7 epochs"):
        check_epochs([observed("a", "2020-01-01", 100), observed("b", "2020-01-01", 100, count=7)], 8)
    back = observed("c", "2020-01-01", 100)
    back.epochs[5] = back.epochs[3]
    with refuses("epochs.not_ascending", "c: epoch 2020-01-16 follows 2020-01-22"):
        check_epochs([back], 8)
