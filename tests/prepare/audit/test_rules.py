import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plumbline.prepare.audit.rules import RULES
from plumbline.prepare.audit.summary import TABLES
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.sequences import UNDEFINED, concatenate
from tests.prepare.audit.audited import SIZES, make_report, make_split, make_splits, make_track, rule, run

NONE = np.zeros(0, int)


def labels(name="train", **arrays):
    """Good splits, but for some arrays of one of them."""
    splits = make_splits()
    whole = {"severity": np.float32, "quadrant": np.int64}
    arrays = {key: np.asarray(values, whole[key]) for key, values in arrays.items()}
    return splits | {name: replace(splits[name], **arrays)}


def severities(values, name="train"):
    """Good splits, but for the severities of one; its quadrants fit."""
    count = SIZES[name]
    severity = np.resize(np.asarray(values, np.float32), count)
    quadrant = np.where(severity >= 0.5, np.arange(count) % 4, UNDEFINED)
    return labels(name, severity=severity, quadrant=quadrant)


def outlier():
    """Good splits, but for one spread of a building of `train`, which has enough of them for so large a skewness."""
    train = make_split("train", 500, 0)
    train.geometry[:, names(GEOMETRY).index("spread")] = np.r_[1e4, np.zeros(499)]
    return make_splits() | {"train": train}


def test_good_data_pass_every_rule():
    result = run()
    assert [finding.name for finding in result.rules if finding.status != "pass"] == []
    assert result.verdict == "pass"
    assert sorted(finding.name for finding in result.rules) == sorted(rule.name for rule in RULES)


TRACKS = [
    ("points", {"points": 0}, "warn", 0, 1),
    ("speed", {"speed_p99_mm_yr": 150.0}, "warn", 150, 100),
    ("speed", {"speed_p99_mm_yr": 5000.0}, "fail", 5000, 1000),
    ("noise_low", {"noise_mm": 0.1}, "warn", 0.1, 0.3),
    ("noise_low", {"noise_mm": 0.002}, "fail", 0.002, 0.03),
    ("noise_high", {"noise_mm": 30.0}, "warn", 30, 20),
    ("noise_high", {"noise_mm": 2500.0}, "fail", 2500, 100),
]


@pytest.mark.parametrize(("name", "track", "status", "value", "bound"), TRACKS)
def test_rules_on_tracks(name, track, status, value, bound):
    found = rule(run({}, make_report(track)), name)
    assert (found.status, found.value, found.bound) == (status, pytest.approx(value), pytest.approx(bound))
    assert found.where == "a, up"
    assert found.reason.startswith("a, up: ")


def test_every_rule_stands_in_the_docs_by_its_name_and_none_else():
    page = (Path(__file__).parents[3] / "docs" / "audit.md").read_text(encoding="utf-8")
    table = page.split("## Rules")[1].split("\n\n")[0]
    cells = [line.split("|")[1] for line in table.splitlines() if line.startswith("| `")]
    named = re.findall(r"`(\w+)`", " ".join(cells))
    assert sorted(named) == sorted(rule.name for rule in RULES)


def test_a_track_that_is_not_used_is_not_looked_at():
    tracks = [make_track(), make_track("down", noise_mm=None, speed_p99_mm_yr=None)]
    assert run({}, make_report(tracks=tracks)).verdict == rule(run({}), "split_size").status
    found = rule(run({}, make_report(tracks=tracks)), "noise_low")
    assert (found.status, found.where) == ("pass", "a, up")


def test_a_city_without_points_fails():
    tracks = [make_track(points=0), make_track("down", points=0)]
    found = rule(run({}, make_report(tracks=tracks)), "points")
    assert (found.status, found.value, found.bound, found.where) == ("fail", 0, 1, "a")


@pytest.mark.parametrize("name", [*sorted({name for name, *_ in TRACKS}), "block_leak"])
def test_what_is_not_reported_is_said(name):
    bare = {"cities": {"a": {"tracks": [{"name": "up", "points": 5}] if name != "points" else []}}}
    report = {} if name == "points" else bare
    found = rule(run({}, report), name)
    assert found.status == "warn"
    assert "not looked at" in found.reason


def test_a_reason_counts_every_place_and_names_the_worst():
    tracks = [make_track(f"t{i}", noise_mm=30.0 + i) for i in range(9)]
    found = rule(run({}, make_report(tracks=tracks)), "noise_high")
    assert found.where == "a, t8"
    assert found.reason.startswith("a, t8: 38 mm of noise from epoch to epoch; 8 more: a, t7, a, t6, ")
    assert found.reason.endswith("a, t3, ...")


def test_notes_of_the_readers_warn():
    found = rule(run({}, make_report(notes=["coordinates were in the other order"])), "notes")
    assert (found.status, found.value, found.bound, found.where) == ("warn", 1, 0, "a")


ALL = np.zeros(400)
"""One value for each building of `train`."""
SPLITS = {
    "few": ("split_size", lambda: make_splits() | {"test": make_split("test", 20, 9)}, "warn", 20, 30, "test"),
    "none": ("split_size", lambda: make_splits() | {"test": make_splits()["test"].take(NONE)}, "fail", 0, 1, "test"),
    "no train": ("split_size", lambda: {"test": make_split("test", 50, 1)}, "fail", 0, 1, "train"),
    "NaN": ("severity_known", lambda: severities([np.nan, 0.1, 3.0, 0.7]), "fail", 100, 0, "train"),
    "infinite": ("severity_known", lambda: severities([np.inf, 0.1, 3.0]), "fail", 134, 0, "train"),
    "negative": ("severity_known", lambda: severities([-1.0, 0.1, 3.0]), "fail", 134, 0, "train"),
    "large": ("severity_range", lambda: severities([0.1, 0.6, 1, 2, 30]), "warn", 30, 20, "train"),
    "unit": ("severity_range", lambda: severities([0.1, 0.6, 1, 2, 600]), "fail", 600, 100, "train"),
    "no code": ("quadrant_codes", lambda: labels(quadrant=ALL.astype(int) + 4), "fail", 400, 0, "train"),
    "sound": ("quadrant_codes", lambda: labels(severity=ALL + 0.1, quadrant=ALL), "fail", 400, 0, "train"),
    "unknown": ("quadrant_known", lambda: labels(severity=ALL + 2, quadrant=ALL - 1), "warn", 1, 0, "train"),
    "strange": ("quadrant_known", lambda: labels(severity=ALL + 2, quadrant=ALL + 7), "pass", 0, 0, "test"),
    "all sound": ("damage_present", lambda: severities([0.1]), "fail", 0, 1, "train, damaged"),
    "all damaged": ("damage_present", lambda: severities([2.0]), "fail", 0, 1, "train, undamaged"),
    "test damaged": ("damage_present", lambda: severities([2.0], "test"), "warn", 0, 1, "test, undamaged"),
    "rare": ("damage_balance", lambda: severities([0.1] + [2.0] * 39), "warn", 0.025, 0.05, "train, undamaged"),
    "rare category": (
        *("category_balance", lambda: severities([0.1, 1, 2, 4] * 25 + [0.6])),
        *("warn", 3 / 400, 0.02, "train, category 1"),
    ),
    "rare quadrant": (
        *("quadrant_balance", lambda: labels(severity=ALL + 2, quadrant=np.r_[0:4, [0, 1, 2] * 132])),
        *("warn", 1 / 400, 0.1, "train, SE"),
    ),
    "skew": ("skew", outlier, "warn", 498 / 499**0.5, 20.0, "train, geometry.spread"),
}


@pytest.mark.parametrize(("name", "splits", "status", "value", "bound", "where"), SPLITS.values(), ids=SPLITS)
def test_rules_on_splits(name, splits, status, value, bound, where):
    found = rule(run(splits()), name)
    assert (found.status, found.where) == (status, where)
    assert found.value == pytest.approx(value, rel=1e-6)
    assert found.bound == pytest.approx(bound)


@pytest.mark.parametrize(("table", "value"), [("distance", np.nan), ("slope", np.inf), ("geometry", -np.inf)])
def test_a_value_that_is_no_number_fails_by_building_and_column(table, value):
    splits = make_splits()
    array = getattr(splits["test"], table).copy()
    row = 7 if table == "geometry" else splits["test"].offsets[7]
    array[row, 1] = value
    found = rule(run(splits | {"test": replace(splits["test"], **{table: array})}), "finite")
    assert (found.status, found.value, found.bound) == ("fail", 1, 0)
    assert found.reason.startswith(f"split test, {table}, building test7, row {row}, column ")
    assert found.reason.endswith(f": {value} found, a finite number needed (1 such values)")


def named(split, *ids):
    """The fourth and the sixth building of a good split, under other names if given."""
    taken = make_splits()[split].take(np.array([3, 5]))
    return replace(taken, building_id=np.array(ids)) if ids else replace(taken, geometry=taken.geometry + 9)


LEAKS = [
    ("building_leak", "test", named("train"), "fail", "in train and test", r"2 buildings, as train[35] of a"),
    ("building_leak", "test", named("test"), "fail", "twice in test", r"2 buildings, as test[35] of a"),
    ("twin_leak", "test", named("train", "new1", "new2"), "fail", "in train and test", "2 buildings"),
    ("twin_leak", "train", named("train", "new1", "new2"), "warn", "twice in train", "2 buildings"),
]


@pytest.mark.parametrize(("name", "split", "added", "status", "where", "text"), LEAKS)
def test_a_building_that_is_given_twice_is_found_by_name_or_by_values(name, split, added, status, where, text):
    splits = make_splits()
    result = run(splits | {split: concatenate([splits[split], added])})
    found = rule(result, name)
    assert (found.status, found.value, found.where) == (status, 2, where)
    assert re.match(f"{where}: {text}", found.reason)
    (other,) = {"building_leak", "twin_leak"} - {name}
    assert rule(result, other).status == "pass"


def test_one_identifier_in_two_cities_is_two_buildings():
    splits = make_splits()
    other = make_split("train", 50, seed=5)
    other = replace(other, city=np.full(50, "a longer name"))
    assert rule(run(splits | {"test": other}), "building_leak").status == "pass"


def test_a_block_in_two_splits_fails():
    report = make_report()
    report["blocks"]["test"].append(report["blocks"]["train"][1])
    found = rule(run({}, report), "block_leak")
    assert (found.status, found.value, found.where) == ("fail", 1, "in train and test")
    assert "as a/train/1" in found.reason


@pytest.mark.parametrize(("table", "column"), [("geometry", "height_range"), ("slope", "gradient_y_se")])
def test_a_split_of_other_buildings_drifts(table, column):
    splits = make_splits()
    array = getattr(splits["test"], table).copy()
    array[:, names(TABLES[table]).index(column)] += 6
    found = rule(run(splits | {"test": replace(splits["test"], **{table: array})}), "drift_splits")
    assert (found.status, found.where) == ("warn", f"test from train, {table}.{column}")
    assert found.value > found.bound >= 0.25


@pytest.mark.parametrize("count", [6, 30])
def test_a_small_split_of_the_same_buildings_does_not_drift(count):
    """By chance alone, the index of so few buildings is far above the usual 0.25."""
    result = run(make_splits() | {"test": make_split("test", count, 10)})
    assert rule(result, "drift_splits").status == "pass"
    assert result.verdict != "fail"
    most = max(shift["psi"] for shift in result.statistics["drift"]["test"].values())
    assert most > 0.25 or count == 30


def test_sixty_labelled_buildings_of_one_city_do_not_fail():
    splits = {
        name: make_split(name, count, seed)
        for seed, (name, count) in enumerate({"train": 36, "tune": 8, "calibrate": 8, "test": 8}.items())
    }
    assert run(splits).verdict == "warn"
