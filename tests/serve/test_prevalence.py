import logging

import numpy as np
import pandas as pd
import pytest

from plumbline.core.console import log
from plumbline.serve.prevalence import chance, flagged, say_damaged, whole_in_damage

CHANCE, MORE, NONE = "does not show that any", "shows no damage by itself", "nothing shows that any"
TOLD = {
    "pruned": {"quadrant_accuracy": 0.6},
    "false_alarms": {
        "bounds_permille": [0.5, 0.75, 1.5],
        "points_from": [0, 10, 20],
        "sound": [1000, 1000, 2000],
        "flagged": [[100, 50, 20], [100, 30, 10], [200, 40, 2]],
    },
}


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


def table(judged, damaged, sure, left_out=3, low=0.5, points=30):
    """Of so many judged buildings these are of category 1 or above, and of them these with their whole interval."""
    lows = [low] * sure + [0.0] * (judged - sure) + [None] * left_out
    category = [1] * damaged + [0] * (judged - damaged) + [None] * left_out
    status = ["ok"] * judged + ["insufficient_points"] * left_out
    count = [points] * judged + [2] * left_out
    return pd.DataFrame(
        {"status": status, "burland_category": category, "severity_low": lows, "n_points": count}
    ).astype({"burland_category": "Int64", "severity_low": float})


@pytest.mark.parametrize(
    ("judged", "damaged", "sure", "expected", "ends"),
    [
        (100, 40, 10, "as on the data of the interval: from 0.5 permille 10 (about 10)", CHANCE),
        # Poisson with a mean of 10: 18 and more in 1.4 of 100 cases, 19 and more in 0.7.
        (100, 40, 18, "from 0.5 permille 18 (about 10)", CHANCE),
        (100, 40, 19, "from 0.5 permille 19 (about 10)", MORE),
        (527, 108, 34, "527 sound buildings would have, if it were one in 10 of them as", CHANCE),
        (527, 108, 75, "(about 53)", MORE),
        (100, 6, 0, "from 0.5 permille 0 (about 10)", NONE),
        (20, 6, 1, "from 0.5 permille 1 (about 2.0)", CHANCE),
    ],
)
def test_as_many_as_of_sound_buildings_show_nothing(said, judged, damaged, sure, expected, ends):
    """A package that does not tell is taken by what its interval was set to hold."""
    say_damaged(table(judged, damaged, sure), {})
    (line,) = said
    assert line.startswith(f"{damaged} of the ok are of category 1 or above, {sure} of them with their whole interval.")
    assert expected in line
    assert [end in line for end in (CHANCE, MORE, NONE)] == [end == ends for end in (CHANCE, MORE, NONE)]
    assert not line.endswith(".")


def test_each_bound_is_compared_with_what_the_package_tells_of_sound_buildings():
    found = flagged(table(1000, 40, 30, low=1.6), TOLD)
    assert [one.from_permille for one in found] == [0.5, 0.75, 1.5]
    assert [one.found for one in found] == [30, 30, 30]
    assert [one.expected for one in found] == pytest.approx([100, 20, 1])
    assert [one.more_than_chance for one in found] == [False, False, True]


def test_a_building_is_compared_with_those_of_as_many_scatterers():
    few, many = flagged(table(500, 9, 9, points=9), TOLD), flagged(table(500, 9, 9, points=20), TOLD)
    assert [one.expected for one in few] == pytest.approx([50, 25, 10])
    assert [one.expected for one in many] == pytest.approx([50, 10, 0.5])
    assert flagged(table(500, 9, 9, points=10), TOLD)[1].expected == pytest.approx(15)
    both = pd.concat([table(500, 9, 9, points=9), table(500, 9, 9, points=20)])
    assert [one.expected for one in flagged(both, TOLD)] == pytest.approx([100, 35, 10.5])


@pytest.mark.parametrize("rate", [0.0005, 0.005, 0.065])
@pytest.mark.parametrize("buildings", [100, 20_000])
def test_of_towns_without_damage_fewer_than_1_in_100_have_more_than_chance(rate, buildings):
    """However few sound ones the package has seen, and however many the town has."""
    random = np.random.default_rng(1)
    for sound in (40, 2900):
        found, of = random.binomial([buildings, sound], rate, (1000, 2)).T
        more = [chance(*one, np.array([sound])) < 0.01 for one in zip(found, *_columns(buildings, of), strict=True)]
        assert sum(more) <= 12


def _columns(buildings, of):
    return np.full((len(of), 1), buildings), of[:, None]


def test_a_kind_that_the_package_has_hardly_seen_is_compared_with_its_own():
    """Dense points, which it has seen, are flagged less often: by their rate sound towns of sparse ones are damaged."""
    told = {**TOLD["false_alarms"], "sound": [0, 29, 1971], "flagged": [[0, 0, 0], [3, 2, 1], [97, 8, 2]]}
    found = flagged(table(300, 36, 36, points=15), {"false_alarms": told})
    assert [one.expected for one in found] == pytest.approx([300 * n / 29 for n in (3, 2, 1)])
    assert not any(one.more_than_chance for one in found)
    assert all(one.more_than_chance for one in flagged(table(300, 36, 36, low=1.6), {"false_alarms": told}))
    many = table(300, 200, 200, points=15, low=1.6)
    assert all(one.more_than_chance for one in flagged(many, {"false_alarms": told}))


def test_of_a_kind_that_the_package_has_not_seen_any_number_may_be_by_chance():
    told = {**TOLD["false_alarms"], "sound": [0, 29, 1971], "flagged": [[0, 0, 0], [3, 2, 1], [97, 8, 2]]}
    found = flagged(table(300, 299, 299, points=9, low=1.6), {"false_alarms": told})
    assert [one.expected for one in found] == pytest.approx([30, 30, 30])
    assert not any(one.more_than_chance for one in found)


def test_of_a_package_that_has_seen_hardly_any_sound_building_the_interval_tells():
    told = {**TOLD["false_alarms"], "sound": [9, 10, 10], "flagged": [[0, 0, 0]] * 3}
    assert flagged(table(500, 9, 9), {"false_alarms": told}) == flagged(table(500, 9, 9), {})


def test_where_others_are_judged_than_the_package_would_nothing_is_compared(said):
    say_damaged(table(100, 40, 30), None)
    assert said == ["40 of the ok are of category 1 or above, 30 of them with their whole interval"]


def test_of_nobody_judged_nothing_is_compared():
    assert flagged(table(0, 0, 0), TOLD) == []


def test_how_many_of_those_beyond_chance_are_damaged_is_said(said):
    say_damaged(table(1000, 40, 30, low=1.6), TOLD)
    assert (
        "from 0.5 permille 30 (about 100), from 0.75 permille 30 (about 20), from 1.5 permille 30 (about 1.0)"
        in said[0]
    )
    assert said[0].endswith("More than chance makes of sound ones; damaged are at least about 29 of the 30 from 1.5")


def test_of_few_buildings_nothing_is_said_of_chance(said):
    say_damaged(table(19, 5, 2), TOLD, "athens: ")
    assert said == ["athens: 5 of the ok are of category 1 or above, 2 of them with their whole interval"]


def test_of_nobody_damaged_nothing_is_said(said):
    say_damaged(table(30, 0, 0), TOLD)
    assert not said


def test_a_lower_end_on_the_bound_is_in_category_1():
    lows = pd.DataFrame({"severity_low": [0.5, 0.4999, None, 3.0]})
    assert whole_in_damage(lows) == 2
