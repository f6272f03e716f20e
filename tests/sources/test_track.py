from dataclasses import replace

import numpy as np
import pytest

from plumbline.sources.points.track import concatenate_tracks, drop_repeated
from tests.sources.make import track


def test_keep_counts_what_it_drops():
    before = replace(track(4), coherence=np.array([0.1, 0.2, 0.3, 0.4], np.float32), dropped={"duplicate_id": 3})
    after = before.keep(np.array([True, False, False, True]), "incoherent")
    assert after.point_id.tolist() == ["p0", "p3"]
    assert after.displacement.tolist() == [[0, 0], [3, -3]]
    assert after.coherence is not None
    assert len(after.coherence) == len(after.los) == len(after) == 2
    assert dict(after.dropped) == {"duplicate_id": 3, "incoherent": 2}


def test_blocks_of_one_track_are_put_together_in_order_and_others_are_not():
    whole = replace(track(5), coherence=np.arange(5, dtype=np.float32), dropped={"no_height": 2})
    parts = [whole.take(np.arange(2)), replace(whole.take(np.arange(2, 5)), dropped={"no_height": 1, "other": 4})]
    joined = concatenate_tracks(parts)
    assert joined.point_id.tolist() == whole.point_id.tolist()
    assert joined.displacement.tobytes() == whole.displacement.tobytes()
    assert joined.coherence is not None
    assert joined.coherence.tolist() == [0, 1, 2, 3, 4]
    assert dict(joined.dropped) == {"no_height": 3, "other": 4}
    assert concatenate_tracks([parts[0], replace(parts[1], coherence=None)]).coherence is None
    with pytest.raises(ValueError, match="cannot be one track"):
        concatenate_tracks([parts[0], replace(parts[1], name="another")])
    with pytest.raises(ValueError, match="cannot be one track"):
        concatenate_tracks([parts[0], parts[1].at_epochs(np.arange(len(whole.epochs)) > 0)])


def test_of_points_of_one_identifier_at_one_place_the_first_stays():
    twice = track(4)
    twice.point_id[3], twice.easting[3], twice.northing[3] = twice.point_id[1], twice.easting[1], twice.northing[1]
    kept = drop_repeated(twice)
    assert kept.point_id.tolist() == ["p0", "p1", "p2"]
    assert dict(kept.dropped) == {"duplicate_id": 1}
    assert drop_repeated(track(4)).dropped == {}
