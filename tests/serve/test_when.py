"""What is said of the time of damage, from courses made up."""

import geopandas
import numpy as np
import pandas as pd
import pytest
import shapely

from plumbline.params import Prepare
from plumbline.prepare.abstention import ModelledBuildings
from plumbline.serve.columns import WHEN
from plumbline.serve.judgement import ModelSummary, judge
from plumbline.serve.when import DATES, FIGURES, RATES, course_rows, when_columns
from tests.serve.made import PERIOD, SHARE, answers_of, courses_of

ONSETS = np.array([0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95])
BUILDING = np.array([0, 2, 3, 5, 6, 8, 9])
COUNT = 10


def said(p_damaged=0.95, courses=None, severity=2.0):
    answers = pd.DataFrame({"p_damaged": np.broadcast_to(np.asarray(p_damaged, float), COUNT)})
    answers = answers.assign(severity_permille=severity, severity_low=severity / 2, severity_high=severity * 2)
    table = when_columns(courses_of(BUILDING, ONSETS) if courses is None else courses, answers)
    return table.reindex(range(COUNT))


def judged(damage_rate):
    """All ten, one of them not judged, at a share of damaged buildings."""
    shapes = [shapely.box(20 * row, 0, 20 * row + 9, 9) for row in range(COUNT)]
    frame = geopandas.GeoDataFrame({"building_id": list("abcdefghij")}, geometry=shapes, crs="EPSG:32633")
    answers = answers_of([[0.9, 0.1, 0, 0]] * COUNT, np.full(COUNT, 2.0), p_damaged=0.97)
    asked = ModelledBuildings(np.arange(COUNT), np.full(COUNT, 9), np.arange(COUNT) == 3, np.full(COUNT, 0.1))
    return judge(
        asked,
        answers,
        frame,
        Prepare(),
        ModelSummary("7", SHARE),
        damage_rate=damage_rate,
        courses=courses_of(BUILDING, ONSETS),
    )


def test_nothing_is_said_of_a_building_that_is_probably_sound():
    p_damaged = np.where(np.arange(COUNT) < 5, 0.49, 0.5)
    table = said(p_damaged)
    assert list(table) == list(WHEN)
    assert table.iloc[:5].isna().all(axis=None)
    assert table.loc[[5, 6, 8, 9], list(RATES)].notna().all(axis=None)
    assert table.iloc[7].isna().all()  # was not followed


def test_dates_are_in_order_and_in_the_record():
    vague = said(courses=courses_of(BUILDING, ONSETS, width=5.0)).iloc[BUILDING]  # they may be at any time
    assert vague[list(DATES)].isna().all(axis=None)
    assert vague[list(RATES)].notna().all(axis=None)
    table = said().iloc[BUILDING]
    rate, lowest, highest = (table[name].to_numpy() for name in RATES)
    assert ((lowest >= 0) & (lowest <= rate) & (rate <= highest)).all()
    assert table[list(DATES)].notna().all(axis=None)
    begins, early, late = (table[name].to_numpy("datetime64[D]") for name in DATES)
    assert (PERIOD[0] <= early).all()
    assert (early <= begins).all()
    assert (begins <= late).all()
    assert (late <= PERIOD[1]).all()
    true = PERIOD[0] + np.rint(ONSETS * (PERIOD[1] - PERIOD[0]).astype(int)).astype("timedelta64[D]")
    assert ((early <= true) & (true <= late)).all()
    assert begins[0] == PERIOD[0]


def test_the_less_sure_damage_is_the_nearer_all_is_to_what_was_thought_before():
    sure, less = (said(p).iloc[BUILDING] for p in (0.99, 0.85))
    assert (sure["p_accelerating"].iloc[-1], sure["p_accelerating"].iloc[0]) == pytest.approx((0.9, 0.2), abs=0.02)
    assert sure["p_accelerating"].iloc[-1] > less["p_accelerating"].iloc[-1]
    both = sure["begins"].notna() & less["begins"].notna()
    assert both.any()
    assert (less.loc[both, "begins_early"] <= sure.loc[both, "begins_early"]).all()


def test_the_layer_has_each_quarter_and_both_ends():
    found = judged(0.5)
    rows = found.courses
    table = found.table.set_index("building_id")
    assert set(rows["building_id"]) == set(table.index[table["severity_rate"].notna()])
    assert "d" not in set(rows["building_id"])  # not judged
    dates = rows.loc[rows["building_id"] == "a", "date"].tolist()
    assert [dates[0], dates[-1]] == PERIOD.astype(str).tolist()
    assert dates[1:4] == ["2020-04-01", "2020-07-01", "2020-10-01"]
    assert len(dates) == 2 + 15
    for name, own in rows.groupby("building_id"):
        assert own["date"].tolist() == dates
        assert (np.diff(own["severity_permille"]) >= -1e-9).all()
        assert (
            (own["severity_low"] <= own["severity_permille"]) & (own["severity_permille"] <= own["severity_high"])
        ).all()
        assert own["severity_permille"].iloc[0] == 0
        np.testing.assert_allclose(
            own[list(FIGURES)].iloc[-1].to_numpy(float), table.loc[name, list(FIGURES)].to_numpy(float)
        )


def test_at_another_share_of_damaged_buildings_something_else_is_said():
    often, rarely = judged(0.6), judged(0.02)
    assert often.table["severity_rate"].notna().sum() == len(BUILDING) - 1
    assert rarely.table["severity_rate"].isna().all()
    assert len(rarely.courses) == 0
    assert list(rarely.courses) == ["building_id", "date", *FIGURES]


def test_rows_belong_to_the_footprints_that_were_asked_about():
    """Of some footprints the model is not asked."""
    table = geopandas.GeoDataFrame(
        {
            "building_id": ["x", "y", "z"],
            "severity_rate": [np.nan, 0.1, 0.2],
            **{name: [np.nan, 1.0, 2.0] for name in FIGURES},
        }
    )
    rows = course_rows(courses_of([0, 1], [0.2, 0.6]), np.array([1, 2]), table)
    last = rows.groupby("building_id")["severity_permille"].last()
    assert last.to_dict() == {"y": 1.0, "z": 2.0}
