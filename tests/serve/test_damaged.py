import logging

import pandas as pd
import pytest

from plumbline.console import log
from plumbline.serve.damaged import say_damaged, whole_in_damage

CHANCE, MORE, NONE = "does not show that any", "more than chance", "nothing shows that any"


@pytest.fixture
def said():
    """Messages of the package's log."""
    lines, level = [], log.level
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    yield lines
    log.removeHandler(handler)
    log.setLevel(level)


def table(judged, damaged, sure, left_out=3):
    """Of so many judged buildings these are of category 1 or above, and of them these with their whole interval."""
    low = [0.5] * sure + [0.0] * (judged - sure) + [None] * left_out
    category = [1] * damaged + [0] * (judged - damaged) + [None] * left_out
    status = ["ok"] * judged + ["insufficient_points"] * left_out
    return pd.DataFrame({"status": status, "burland_category": category, "severity_low": low}).astype(
        {"burland_category": "Int64", "severity_low": float}
    )


@pytest.mark.parametrize(
    ("judged", "damaged", "sure", "expected", "ends"),
    [
        (100, 40, 10, "about 10 of 100", CHANCE),
        # Two standard deviations of 100 tosses at one in ten are 6.
        (100, 40, 16, "about 10 of 100", CHANCE),
        (100, 40, 17, "about 10 of 100", MORE),
        (527, 108, 34, "about 53 of 527", CHANCE),
        (527, 108, 67, "about 53 of 527", MORE),
        (100, 6, 0, "about 10 of 100", NONE),
        (20, 6, 1, "about 2 of 20", CHANCE),
    ],
)
def test_as_many_as_of_sound_buildings_show_nothing(said, judged, damaged, sure, expected, ends):
    say_damaged(table(judged, damaged, sure))
    (line,) = said
    assert line.startswith(f"{damaged} of the ok are of category 1 or above, {sure} of them with their whole interval.")
    assert f"1 sound building in 10 has such an interval: {expected}." in line
    assert [end in line for end in (CHANCE, MORE, NONE)] == [end == ends for end in (CHANCE, MORE, NONE)]
    assert not line.endswith(".")


def test_of_few_buildings_nothing_is_said_of_chance(said):
    say_damaged(table(19, 5, 2), "athens: ")
    assert said == ["athens: 5 of the ok are of category 1 or above, 2 of them with their whole interval"]


def test_of_nobody_damaged_nothing_is_said(said):
    say_damaged(table(30, 0, 0))
    assert not said


def test_a_lower_end_on_the_bound_is_in_category_1():
    lows = pd.DataFrame({"severity_low": [0.5, 0.4999, None, 3.0]})
    assert whole_in_damage(lows) == 2
