"""Tables as people have them hold the points of the plain files of the same city."""

from pathlib import Path

import numpy as np
import pytest

from plumbline.params import load_ingest
from plumbline.sources.city.in_memory import read_tracks
from tests.refusals import warning_keys

CASES = Path(__file__).parents[1] / "fixtures" / "cases"
TRACKS = ("asc", "des")


@pytest.mark.parametrize(
    ("folder", "stem", "keys"),
    [
        ("no-final-newline", "noeol", []),
        ("trailing-separator", "trail", []),
        ("spreadsheet-ids", "xid", ["points.renumbered"] * 2),
    ],
)
def test_a_table_of_another_kind_has_the_same_points(caplog, folder, stem, keys):
    ingest = load_ingest(CASES / folder / "params.yaml").model_copy(update={"crs": "EPSG:3035"})
    tracks = read_tracks([CASES / folder / f"{stem}_{track}.csv" for track in TRACKS], ingest)
    assert warning_keys(caplog) == keys
    plain = read_tracks([CASES / "base" / f"{track}.csv" for track in TRACKS])
    for track, wanted in zip(tracks, plain, strict=True):
        np.testing.assert_array_equal(track.epochs, wanted.epochs)
        np.testing.assert_allclose(track.displacement, wanted.displacement, atol=0.06)
        np.testing.assert_allclose([track.easting, track.northing], [wanted.easting, wanted.northing], atol=0.1)
