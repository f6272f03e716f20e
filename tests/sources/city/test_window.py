"""A window of time: which epochs are in it, and which windows are refused."""

from dataclasses import replace
from datetime import date
from pathlib import Path

import numpy as np
import pytest

from plumbline.sources.city.in_memory import Reading, read_city_files, read_tracks
from plumbline.sources.city.window import ALL_TIME, Window, parse_window
from tests.refusals import refuses
from tests.sources.make import track

BASE = Path(__file__).parents[2] / "fixtures" / "cases" / "base"
HOUSES = BASE / "fp.gpkg"
POINTS = [BASE / "asc.csv", BASE / "des.csv"]
YEAR = parse_window("2020-01-23", "2021-02-10")


def test_both_ends_are_in_the_window():
    whole, cut = read_tracks(POINTS), read_tracks(POINTS, window=YEAR)
    for one, other in zip(cut, whole, strict=True):
        inside = (other.epochs >= np.datetime64("2020-01-23")) & (other.epochs <= np.datetime64("2021-02-10"))
        np.testing.assert_array_equal(one.epochs, other.epochs[inside])
        np.testing.assert_array_equal(one.displacement, other.displacement[:, inside])
        assert one.point_id.tolist() == other.point_id.tolist()
    assert cut[0].epochs[0] == np.datetime64("2020-01-23")
    assert cut[0].epochs[-1] == np.datetime64("2021-02-10")


def test_a_side_that_is_left_out_is_open():
    epochs = np.array(["2020-01-03", "2020-01-09T18:00"], "datetime64[s]")
    assert Window(since=date(2020, 1, 4)).holds(epochs).tolist() == [False, True]
    assert Window(until=date(2020, 1, 9)).holds(epochs).tolist() == [True, True]  # whatever the time of day
    assert Window(until=date(2020, 1, 8)).holds(epochs).tolist() == [True, False]
    given = track()
    assert ALL_TIME.cut("a.csv", given, min_epochs=9) is given
    assert replace(YEAR, since=None).record() == {"since": None, "until": "2021-02-10"}


@pytest.mark.parametrize(
    ("since", "until", "key", "place"),
    [
        ("2022-01-01", "2021-01-01", "window.reversed", "since 2022-01-01 is after until 2021-01-01"),
        ("lately", None, "window.not_a_day", "since: 'lately'"),
        (None, "2021-02-30", "window.not_a_day", "until: '2021-02-30'"),
    ],
)
def test_what_is_no_window_is_refused(since, until, key, place):
    with refuses(key, place):
        parse_window(since, until)


@pytest.mark.parametrize(
    ("until", "left", "needed", "read"),
    [
        ("2018-12-31", 0, 8, lambda window: read_city_files(POINTS, HOUSES, Reading(window=window))),
        ("2019-01-27", 1, 2, lambda window: read_tracks(POINTS, window=window)),  # as `restore` does
    ],
)
def test_too_few_epochs_are_refused_with_the_file_its_dates_and_the_window(until, left, needed, read):
    with refuses("epochs.too_few", f"asc.csv: {left} of its", f"up to {until}; at least {needed}"):
        read(parse_window(None, until))
