"""`plumbline replay`: judgements as of past dates, the first flag of each building, and how often one is raised."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import geopandas
import numpy as np
import pandas as pd
import pyogrio
import pytest
import shapely

from plumbline.serve.predictions import read_predictions, write_table
from plumbline.serve.replay import first_flags, judged_dates, replay_table, until
from tests.prepare.made import EPOCHS, box, make_buildings, make_track
from tests.refusals import refuses
from tests.tiny import run_cli

BASE = Path(__file__).parents[1] / "fixtures" / "cases" / "base"
LATE = "H001"
"""A sound building of the base case, of which a quarter begins to sink here."""
BEGIN, MM_A_YEAR = "2022-01-01", 40.0
DATES = ["2020-08-07", "2021-08-02", "2022-07-28", "2023-07-23"]
RATE = ("--damage-rate", "0.1")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The base case's points, with late damage."""
    folder = tmp_path_factory.mktemp("place")
    footprints = geopandas.read_file(BASE / "fp.gpkg").set_index("building_id")
    house = footprints.geometry[LATE]
    for name in ("asc", "des"):
        table = pd.read_csv(BASE / f"{name}.csv", dtype=str)
        east, north, up = (table[column].to_numpy(float) for column in ("easting", "northing", "los_up"))
        quarter = shapely.contains_xy(house.buffer(2), east, north)
        quarter &= (east > house.centroid.x) & (north > house.centroid.y)
        days = [column for column in table if column.isdigit()]
        years = ((pd.to_datetime(days) - pd.Timestamp(BEGIN)).days.to_numpy() / 365.25).clip(0)
        series = table.loc[quarter, days].to_numpy(float) - MM_A_YEAR * years * up[quarter, None]
        table.loc[quarter, days] = np.round(series, 1).astype(str)
        table.to_csv(folder / f"{name}.csv", index=False)
    return folder


def run(command: str, place: Path, output: Path, *more: object):
    return run_cli(
        *(command, "--points", place / "asc.csv", place / "des.csv", "--buildings", BASE / "fp.gpkg"),
        *("--output", output, *more),
        cwd=output.parent,
    )


@pytest.fixture(scope="module")
def replayed(place, tmp_path_factory):
    """The table of a replay, and what was said."""
    output = tmp_path_factory.mktemp("replay") / "out.gpkg"
    ended = run("replay", place, output, "--every", "360d", *RATE)
    assert ended.code == 0, ended.err
    return geopandas.read_file(output, layer="buildings").set_index("building_id"), ended.err


def test_damage_that_begins_late_is_flagged_late(replayed):
    table, said = replayed
    assert [name for name in table if name.startswith("p_damaged_")] == [f"p_damaged_{day}" for day in DATES]
    late = table.loc[LATE]
    assert (late[[f"p_damaged_{day}" for day in DATES[:2]]].astype(float) < 0.3).all()
    assert late["first_flagged"] in DATES[2:]
    assert late["days_before_end"] == {DATES[2]: 360, DATES[3]: 0}[late["first_flagged"]]
    flagged = table["first_flagged"].notna()
    assert (flagged == table["days_before_end"].notna()).all()
    assert (~flagged).any()
    for day in DATES:
        assert f"{day}: 36 judged, {(table[f'p_damaged_{day}'] >= 0.5).sum()} flagged" in said
    begun = table["first_flagged"] == DATES[0]
    assert f"{begun.sum()} buildings flagged as of the first date, {(flagged & ~begun).sum()} later" in said
    assert f"{(flagged & ~begun).sum()} new flags in 106 judged building-years" in said  # 36 for 3 x 360 days
    assert "estimated anew" not in said


def test_each_date_has_the_answers_of_predict_until_then(place, replayed, tmp_path):
    table, said = replayed
    for day, window in ((DATES[1], ["--until", DATES[1]]), (DATES[3], [])):
        output = tmp_path / "out.csv"
        ended = run("predict", place, output, *RATE, *window)
        assert ended.code == 0, ended.err
        wanted = read_predictions(output)["p_damaged"].to_numpy()
        np.testing.assert_array_equal(table[f"p_damaged_{day}"].to_numpy(), wanted)
    np.testing.assert_array_equal(table["p_damaged"], table[f"p_damaged_{DATES[-1]}"])
    assert said.count("epochs, ") == 2  # each file is read once


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--every", "6"], "--every 6: a number of days from 1"),
        (["--every", "1d", "--since", "2023-07-01"], "1 of its 70 epochs (2019-01-04 to 2023-07-18)"),
        (["--every", "90d", "--until", "2019-01-04"], "1 of its 70 epochs"),
    ],
)
def test_steps_and_windows_that_judge_nothing_are_refused(tmp_path, words, said):
    ended = run("replay", BASE, tmp_path / "out.csv", *words)
    assert ended.code == 2
    assert said in ended.err
    assert list(tmp_path.iterdir()) == []


def tracks(*epochs):
    place = np.zeros((1, 2))
    return [
        make_track(str(number), place, [0.0], (0, 0, 1), np.zeros((1, len(own))), epochs=own)
        for number, own in enumerate(epochs)
    ]


def test_dates_go_back_from_the_last_epoch_while_a_year_of_record_is_left():
    seen = tracks(EPOCHS)  # 708 days
    assert [(day - EPOCHS[0]).item().days for day in judged_dates(seen, 171)] == [366, 537, 708]
    assert [(day - EPOCHS[0]).item().days for day in judged_dates(seen, 172)] == [536, 708]
    assert judged_dates(seen, 9999) == [EPOCHS[-1]]
    long = tracks(np.datetime64("2000-01-01") + 12 * np.arange(200))
    with refuses("replay.too_many_dates", "--every 1d"):
        judged_dates(long, 1)


def test_a_track_counts_from_when_it_shows_a_trend():
    both = tracks(EPOCHS, EPOCHS[-10:])
    assert until(both, EPOCHS[-1]) == both  # not copied
    assert [len(track.epochs) for track in until(both, EPOCHS[-3])] == [58, 8]
    assert [len(track.epochs) for track in until(both, EPOCHS[-4])] == [57]
    late = [replace(both[0], epochs=EPOCHS + 400), *tracks(EPOCHS)]
    assert [(day - EPOCHS[0]).item().days for day in judged_dates(late, 708)] == [400, 1108]


@pytest.mark.parametrize(
    ("p_damaged", "first"),
    [
        ([0.5, 0.6, 0.7], 0),
        ([0.6, 0.1, 0.7], 2),  # at the last date one is enough
        ([0.6, 0.1, 0.2], -1),
        ([0.6, np.nan, 0.6], 0),  # the next judged date repeats it
        ([0.6, np.nan, 0.4], -1),
        ([0.1, 0.6, np.nan], 1),
        ([np.nan, np.nan, np.nan], -1),
    ],
)
def test_a_flag_counts_if_the_next_judged_date_repeats_it(p_damaged, first):
    assert first_flags(np.array([p_damaged, [0.0, 0.0, 0.0]]), 0.5).tolist() == [first, -1]


@pytest.mark.parametrize("suffix", ["csv", "gpkg", "geojson", "parquet"])
def test_a_place_without_flags_is_written_in_every_format(tmp_path, suffix):
    footprints, path = make_buildings([box(9, 12), box(9, 12, (30, 0))]), tmp_path / f"out.{suffix}"
    p_damaged = np.array([[0.1, np.nan], [0.2, 0.3]])
    write_table(replay_table(footprints, list(EPOCHS[:2]), p_damaged, np.array([-1, -1]), "v"), path, "buildings")
    reader = {"csv": pd.read_csv, "parquet": geopandas.read_parquet}.get(suffix, geopandas.read_file)
    table = reader(path)
    names = ["building_id", "first_flagged", "days_before_end", "p_damaged", "p_damaged_2020-01-01"]
    assert list(table.columns) == [*names, "p_damaged_2020-01-13", "model_version", "geometry"]
    assert table[["first_flagged", "days_before_end"]].isna().all(axis=None)
    np.testing.assert_array_equal(table["p_damaged"], [np.nan, 0.3])


def test_an_estimated_share_and_buildings_that_are_unsure_are_told(place, tmp_path):
    for every in ("9999d", "720d"):  # its own file is replaced
        ended = run("replay", place, tmp_path / "out.gpkg", "--every", every, "--min-quadrant-confidence", "1")
        assert ended.code == 0, ended.err
    assert [name for name, _ in pyogrio.list_layers(tmp_path / "out.gpkg")] == ["buildings"]
    assert "was estimated anew at each date" in ended.err
    assert "are unsure_where at the last date" in ended.err
