"""Strain over time on the map."""

import numpy as np
import pandas as pd
import pytest

from plumbline.serve.map import over_time
from plumbline.serve.map.document import as_json, make_document
from plumbline.serve.map.over_time import when_text
from tests.serve.made import judged_of
from tests.serve.map.town import town

DATES = ["2020-01-03", "2020-04-01", "2020-07-01", "2020-09-17"]


def rows(names):
    """Courses of buildings, each with a severity of its own."""
    value = np.linspace(0, 1, len(DATES)) ** 2 * (1 + np.arange(len(names)))[:, None] / 3
    return pd.DataFrame(
        {
            "building_id": np.repeat(np.array(names, object), len(DATES)),
            "date": DATES * len(names),
            "severity_permille": value.ravel(),
            "severity_low": value.ravel() / 2,
            "severity_high": value.ravel() * 2,
        }
    )


def made(names):
    return make_document(judged_of(town())._replace(tabulate_courses=lambda: rows(names)), [], "Town")


def test_each_course_is_with_its_building_at_dates_said_once():
    said = made(["h15", "h4"])
    features = said["buildings"]["features"]
    found = {features[int(row)]["properties"]["building_id"]: own for row, own in said["courses"]["buildings"].items()}
    assert said["courses"]["dates"] == DATES
    assert set(found) == {"h15", "h4"}
    assert found["h15"] == {
        "low": [0.0, 0.019, 0.074, 0.167],
        "value": [0.0, 0.037, 0.148, 0.333],
        "high": [0.0, 0.074, 0.296, 0.667],
    }
    as_json(said)


@pytest.mark.parametrize("courses", [None, rows([])])
def test_a_map_without_courses_says_so(courses):
    said = make_document(judged_of(town())._replace(tabulate_courses=lambda: courses), [], "Town")
    assert said["courses"] == {"dates": [], "buildings": {}}


def test_only_the_most_probably_damaged_have_courses_in_a_large_city(monkeypatch):
    monkeypatch.setattr(over_time, "MAX_COURSES", 2)
    names = ["h35", "h15", "h20", "h25"]
    said = made(names)
    features = said["buildings"]["features"]
    order = [one["properties"]["building_id"] for one in features if one["properties"]["building_id"] in names]
    assert [features[int(row)]["properties"]["building_id"] for row in said["courses"]["buildings"]] == order[:2]


def test_words_say_only_what_is_known():
    empty = {"begins": None, "begins_early": None, "begins_late": None}
    rate = {"severity_rate": 0.42, "severity_rate_low": 0.2, "severity_rate_high": 0.71}
    dates = {"begins": "2023-05-02", "begins_early": "2023-02-01", "begins_late": "2023-08-30"}
    assert when_text(pd.Series(empty | dict.fromkeys(rate, np.nan) | {"p_accelerating": np.nan})) == ""
    rate["p_accelerating"] = 0.4
    assert when_text(pd.Series(empty | rate)) == "grows by 0.42 permille a year (90 % interval 0.20 to 0.71)"
    assert when_text(pd.Series(dates | rate)) == (
        "begins 2023-05 (90 % interval 2023-02 to 2023-08); grows by 0.42 permille a year (90 % interval 0.20 to 0.71)"
    )
    faster = when_text(pd.Series(empty | rate | {"p_accelerating": 0.93}))
    assert faster.endswith("0.20 to 0.71); faster in the last year than before (probability 93 %)")
    assert when_text(pd.Series(empty | rate | {"p_accelerating": 0.996})).endswith("(probability > 99 %)")


@pytest.mark.parametrize(
    ("begins", "early", "late", "text"),
    [
        ("2021-05-02", "2021-05-02", "2021-05-02", "begins at or before 2021-05"),
        ("2021-05-02", "2021-05-02", "2021-05-30", "begins at or before 2021-05"),
        ("2021-05-02", "2021-05-02", "2022-08-30", "begins at or before 2021-05 (90 % interval to 2022-08)"),
        ("2021-06-12", "2021-06-02", "2021-06-30", "begins 2021-06"),
        ("2021-06-12", "2021-05-02", "2021-06-30", "begins 2021-06 (90 % interval 2021-05 to 2021-06)"),
    ],
)
def test_a_beginning_on_the_first_day_is_at_or_before_it_and_no_interval_is_without_length(begins, early, late, text):
    rate = dict.fromkeys(("severity_rate", "severity_rate_low", "severity_rate_high", "p_accelerating"), np.nan)
    assert when_text(pd.Series({"begins": begins, "begins_early": early, "begins_late": late} | rate)) == text
