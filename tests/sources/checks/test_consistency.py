from dataclasses import replace

import numpy as np
import pytest

from plumbline.core.errors import InputError
from plumbline.sources.distinct import check_distinct
from plumbline.sources.points.track import Track

PLACES = np.arange(0, 600, 30.0)


def track(easting=PLACES, start: str = "2020-01-01", epochs: int = 10, los=(0.5, -0.1, 0.86)) -> Track:
    count = len(easting)
    return Track(
        name="t",
        crs="EPSG:3035",
        epochs=np.datetime64(start, "D") + 6 * np.arange(epochs),
        point_id=np.arange(count).astype(str).astype(object),
        easting=np.asarray(easting),
        northing=np.zeros(count),
        height=np.zeros(count),
        los=np.tile(los, (count, 1)),
        displacement=np.zeros((count, epochs), np.float32),
    )


def renamed(track: Track) -> Track:
    return replace(track, point_id=np.array([f"other {name}" for name in track.point_id], object))


@pytest.mark.parametrize(
    ("other", "points", "days"),
    [
        (replace(track(), name="copy"), 20, 10),
        (track(PLACES[3:9]), 6, 10),  # a part
        (track(epochs=8), 20, 8),  # a release of before
        (renamed(track(PLACES + 0.4)), 20, 10),  # by another program
        (track(start="2020-01-13"), 20, 8),  # a later release
    ],
)
def test_the_same_data_are_refused_with_both_names(other, points, days):
    """Points that count twice make every building look better observed, and sound ones damaged."""
    for pair in ([track(), other], [other, track()]):
        with pytest.raises(
            InputError, match=rf"second\.csv: {points} of its points lie where those of first\.csv do.* on {days} days"
        ):
            check_distinct(pair, ["first.csv", "second.csv"])


@pytest.mark.parametrize(
    "other",
    [
        track(PLACES + 15),
        track(np.r_[PLACES[:9], PLACES[9:] + 15]),  # bursts of one track overlap
        track(start="2020-01-02"),
        track(start="2020-02-12"),  # a stack that goes on where the other ends
        track(los=(-0.5, -0.1, 0.86)),
    ],
)
def test_what_only_resembles_is_not(other):
    check_distinct([track(), other], ["1", "2"])
