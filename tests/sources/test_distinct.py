from dataclasses import replace

import numpy as np
import pytest

from plumbline.errors import InputError
from plumbline.sources.distinct import check_distinct
from plumbline.sources.track import Track


def track(ids: list[str], start: str = "2020-01-01") -> Track:
    count = len(ids)
    epochs = np.datetime64(start, "D") + np.arange(0, 60, 6)
    return Track(
        name="t",
        crs="EPSG:3035",
        epochs=epochs,
        point_id=np.array(ids, object),
        easting=np.zeros(count),
        northing=np.zeros(count),
        height=np.zeros(count),
        los=np.tile([0.5, -0.1, 0.86], (count, 1)),
        displacement=np.zeros((count, 10), np.float32),
    )


def test_a_copy_and_a_part_are_refused_with_both_names():
    whole = track(["a", "b", "c", "d"])
    for other in (replace(whole, name="copy"), track(["b", "c"])):
        with pytest.raises(InputError, match=r"second\.csv: . of its points are those of first\.csv"):
            check_distinct([whole, other], ["first.csv", "second.csv"])


def test_bursts_of_one_track_and_other_times_are_not():
    check_distinct([track(["a", "b", "c"]), track(["c", "d", "e"])], ["1", "2"])
    check_distinct([track(["a", "b"]), track(["a", "b"], "2020-01-02")], ["1", "2"])
