"""Data given twice, or beside what was made from them."""

from dataclasses import replace

import h5py
import numpy as np
import pytest

from plumbline.sources.distinct import check_distinct
from plumbline.sources.points.track import Track
from tests.refusals import refuses, warned, warning_keys

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


UP, EAST = (0.0, 0.0, 1.0), (1.0, 0.0, 0.0)
CELLS = np.arange(0, 600, 100.0)
L2A, L2B = "EGMS_L2a_088_0282_IW2_VV", "EGMS_L2b_088_0282_IW2_VV"
UP_2022, UP_2023 = "EGMS_L3_E45N17_100km_U_2018_2022_1.zip", "EGMS_L3_E45N17_100km_U_2019_2023_1.zip"
OWN, TRACK = "own_tsx.shp", track()
ELSEWHERE = track(PLACES + 5000)
MOVED = track(PLACES + 15)
"""As another level or release may place points."""


def cells(start="2020-01-03", epochs=10, los=UP):
    """Other days than those of a track: the series are resampled."""
    return track(CELLS, start, epochs, los)


REFUSED = [
    ((TRACK, f"{L2B}_2019_2023_1.zip"), (cells(), UP_2023), "tracks.derived", ""),
    ((TRACK, f"{L2A}.csv"), (MOVED, f"{L2B}.csv"), "tracks.same_product", "of one track (088 0282 IW2)"),
    ((TRACK, f"{L2B}_2018_2022_1.zip"), (MOVED, f"{L2B}_2019_2023_1.zip"), "tracks.same_product", "two releases"),
    (
        (TRACK, f"{L2B}.csv"),
        (track(PLACES + 15, "2020-02-18"), f"{L2B}_2020_2024_1.parquet"),
        *("tracks.same_product", "two releases"),
    ),
    ((cells("2020-01-01"), UP_2022), (cells(), UP_2023), "tracks.same_product", "two releases"),
    # SqueeSAR's components have the days of one of the tracks.
    ((TRACK, "asc.shp"), (track(PLACES + 15, los=UP), "vertical.shp"), "tracks.derived", ""),
    (
        (replace(TRACK, name=L2A), "a/points.zip"),
        (replace(MOVED, name=L2B), "b/points.zip"),
        *("tracks.same_product", "of one track"),
    ),
    ((TRACK, f"{L2B}.csv"), (TRACK, f"{L2B}.zip"), "tracks.same_product", "twice, as an archive and unpacked"),
]


@pytest.mark.parametrize(("one", "other", "key", "place"), REFUSED)
def test_they_are_refused_with_both_files(one, other, key, place):
    for pair in ([one, other], [other, one]):
        with refuses(key, one[1], other[1], place):
            check_distinct(*map(list, zip(*pair, strict=True)))


@pytest.mark.parametrize(
    ("one", "other", "key", "place"),
    [
        ((TRACK, OWN), (cells(), UP_2023), "tracks.perhaps_derived", f"{UP_2023}: "),
        ((TRACK, "a.csv"), (track(start="2020-02-12"), "b.csv"), "tracks.same_places", "3 days are in both"),
        ((TRACK, "a.csv"), (track(start="2020-01-02"), "c.csv"), "tracks.same_places", "if one was resampled"),
        ((TRACK, f"{L2B}.zip"), (MOVED, "stamps.csv"), "tracks.two_programs", "10 days"),
    ],
)
def test_what_is_not_sure_is_warned_of(caplog, one, other, key, place):
    check_distinct(*map(list, zip(one, other, strict=True)))
    assert len(caplog.messages) == len(warned(caplog, key, one[1], other[1], place)) == 1


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ((cells(), UP_2023), (cells(los=EAST), UP_2023.replace("_U_", "_E_"))),
        ((cells(), UP_2023), (track(CELLS + 5000, los=UP), UP_2023.replace("E45", "E46"))),
        ((ELSEWHERE, f"{L2B}.csv"), (cells(), UP_2023)),
        ((TRACK, f"{L2B}.csv"), (cells("2021-01-01"), UP_2023)),
        ((TRACK, f"{L2B}.csv"), (track(PLACES + 590), f"{L2B.replace('0282', '0283')}.csv")),
        ((TRACK, f"{L2B}.csv"), (MOVED, f"{L2B.replace('IW2', 'IW3')}.csv")),
        ((TRACK, f"{L2B}.csv"), (track(PLACES + 15, "2021-01-01"), f"{L2B}_2021_2025_1.csv")),
        ((TRACK, "PS.shp"), (MOVED, "DS.shp")),  # of one processor, in two files
    ],
)
def test_what_goes_together_does(caplog, one, other):
    check_distinct(*map(list, zip(one, other, strict=True)))
    assert not warning_keys(caplog)


@pytest.mark.parametrize(
    ("attributes", "away", "is_same"),
    [
        (({"WIDTH": 9}, {"WIDTH": 9, "X_FIRST": 13}), 15, True),
        (({"WIDTH": 9}, {"WIDTH": 9}), 15, False),  # two swaths
        (({"WIDTH": 9}, {"WIDTH": 9, "X_FIRST": 13}), 5000, False),
        (({}, {"WIDTH": 9, "X_FIRST": 13}), 15, False),
    ],
)
def test_a_stack_beside_what_was_geocoded_from_it(tmp_path, attributes, away, is_same):
    names = [str(tmp_path / name) for name in ("timeseries.h5", "geo_timeseries.h5")]
    for name, own in zip(names, attributes, strict=True):
        with h5py.File(name, "w") as file:
            file.attrs.update(own)
    tracks = [TRACK, track(PLACES + away)]
    if not is_same:
        check_distinct(tracks, names)
        return
    with refuses("tracks.geocoded_copy", *names):
        check_distinct(tracks, names)


@pytest.mark.parametrize(
    ("other", "points", "days"),
    [
        (replace(track(), name="copy"), 20, 10),
        (track(PLACES[3:9]), 6, 10),  # a part
        (track(epochs=8), 20, 8),  # a release of before
        (replace(track(PLACES + 0.4), point_id=track().point_id + "x"), 20, 10),  # by another program
        (track(start="2020-01-13"), 20, 8),  # a later release
    ],
)
def test_the_same_data_are_refused_with_both_names(other, points, days):
    """Points that count twice make every building look better observed, and sound ones damaged."""
    for pair in ([track(), other], [other, track()]):
        with refuses("tracks.same_data", f"second.csv: {points} of its points", "first.csv", f"{days} days"):
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
