"""Figures by what has failed, and of lists to inspect, of answers made by hand."""

import numpy as np
import pandas as pd
import pytest

from benchmarks.heldout.mechanisms import ALL, by_mechanism, by_rate, read_beside

LABELS = pd.DataFrame(
    [
        ("1", 2.0, "NE", "NE|NW", "end", "end"),
        ("2", 1.6, "SW", "SW", "bowl", "bowl"),
        ("3", 0.6, "SE", "SE", "bowl", "bowl"),
        ("4", 0.2, "", "", "corner", "corner"),
        ("5", 0.0, "", "", "none", "none"),
        ("6", 0.0, "", "", "none", "none"),
    ],
    columns=["building_id", "severity_permille", "quadrant", "accepted", "mechanism", "parts"],
)
SAID = pd.DataFrame(
    [
        ("6", "ok", "SE", 0.4, 0.9, 0.6, 1.2, 2, 0.9, "SE|SW|NW", "", 0.1),
        ("1", "ok", "NW", 0.9, 1.5, 1.0, 2.5, 3, 0.9, "NW", "end", 0.1),
        ("2", "ok", "NE", 0.6, 0.4, 0.0, 1.0, 0, 0.2, "NE|SW", "corner", 0.1),
        ("3", "insufficient_points", "", np.nan, np.nan, np.nan, np.nan, np.nan, np.nan, "", "", np.nan),
        ("4", "ok", "SE", 0.5, 0.3, 0.1, 0.7, 0, 0.1, "SE|SW", "none", 0.1),
        ("5", "ok", "SE", 0.5, 0.1, 0.0, 0.4, 0, 0.1, "SE|SW", "none", 0.1),
    ],
    columns=[
        "building_id",
        "status",
        "quadrant",
        "quadrant_confidence",
        "severity_permille",
        "severity_low",
        "severity_high",
        "burland_category",
        "p_damaged",
        "quadrants",
        "mechanism",
        "damage_rate",
    ],
)


@pytest.fixture
def files(tmp_path):
    def write(said=SAID, labels=LABELS):
        paths = tmp_path / "predictions.csv", tmp_path / "labels.csv"
        for path, table in zip(paths, (said, labels), strict=True):
            table.to_csv(path, index=False)
        return paths

    return write


def test_figures_are_those_counted_by_hand(files):
    found = by_mechanism(read_beside(*files()))
    assert list(found) == [ALL, "bowl", "corner", "end", "none"]
    of_all = found[ALL]
    assert (of_all.buildings, of_all.damaged, of_all.heavy) == (6, 2, 2)
    assert of_all.judged == pytest.approx(5 / 6)
    assert (of_all.accepted, of_all.said) == pytest.approx((0.5, 0.75))
    assert (of_all.set, of_all.size) == pytest.approx((1.0, 1.5))
    assert (of_all.named, of_all.right) == pytest.approx((1.0, 0.5))
    assert (of_all.missed, of_all.coverage) == pytest.approx((0.5, 3 / 5))
    assert of_all.error == pytest.approx((0.5 + 1.2 + 0.1 + 0.1 + 0.9) / 5)
    assert (found["end"].accepted, found["bowl"].accepted, found["bowl"].missed) == (1, 0, 1)
    assert found["bowl"].judged == 0.5
    assert found["none"].damaged == 0
    assert np.isnan(found["none"].accepted)


def test_a_list_is_scored_at_rates_and_at_its_own(files):
    few, own, half = by_rate(read_beside(*files()))
    assert (few.rate, own.rate, half.rate) == (0.02, 0.1, 0.5)
    # By severity: a damaged one, a sound one, a damaged one.
    assert own.average_precision["severity_permille"] == pytest.approx(0.5 + 0.5 * 0.1 / (0.1 + 0.3))
    assert half.average_precision["severity_permille"] == pytest.approx(0.5 + 0.5 * 0.5 / (0.5 + 0.5 / 3))
    assert few.recall["severity_permille"] == own.recall["severity_permille"] == 0.5
    assert half.recall["severity_permille"] == 1.0
    # By probability the first two are alike.
    assert own.average_precision["p_damaged"] == pytest.approx(0.5 * 0.05 / 0.35 + 0.5 * 0.1 / 0.4)
    assert (own.false_alarms, half.false_alarms) == pytest.approx((1 / 3, 1 / 3))
    assert own.sound_alarms == pytest.approx(0.3 / 0.35)
    assert np.isnan(few.calibration_error)
    assert np.isnan(half.calibration_error)
    assert own.calibration_error == pytest.approx(abs(0.9 * 0.35 - 0.05) + abs(0.2 * 0.05 - 0.05) + abs(0.1 * 0.6))
    another = by_rate(read_beside(*files(SAID.assign(damage_rate=0.3))))
    assert [one.rate for one in another] == [0.02, 0.1, 0.5, 0.3]
    assert np.isfinite([one.calibration_error for one in another]).tolist() == [False, False, False, True]
    silent = by_rate(read_beside(*files(SAID.drop(columns="damage_rate"))))
    assert np.isfinite([one.calibration_error for one in silent]).all()
