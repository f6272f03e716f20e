"""The stage `compress`, as the tiny run made it."""

from __future__ import annotations

import csv

from plumbline.files import read_json
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import count_parameters


def test_the_written_model_is_the_smaller_one(tiny):
    before, after = (read_json(tiny.data(stage) / "metrics.json")["parameters"] for stage in ("train", "compress"))
    model = load_diagnosis(tiny.data("compress"))
    assert after == count_parameters(model.network)["total"] < 0.45 * before
    assert not model.training


def test_its_widths_are_written_beside_it(tiny):
    whole, half = (read_json(tiny.data(stage) / "model.json") for stage in ("train", "compress"))
    joined = [spec["distance_channels"] + spec["slope_channels"] for spec in (whole, half)]
    assert joined[1] == joined[0] // 2
    assert half["hidden"] == whole["hidden"] // 2
    assert half["heads"] == whole["heads"]


def test_fine_tuning_is_on_record_and_is_said(tiny):
    with (tiny.data("compress") / "history.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == tiny.params.compress.epochs
    assert "pruned: " in tiny.said
    assert " parameters left (" in tiny.said


def test_it_is_calibrated_anew(tiny):
    whole, half = (load_diagnosis(tiny.data(stage)) for stage in ("train", "compress"))
    assert whole.interval_scale.tolist() != half.interval_scale.tolist()  # the temperature of so little is at its bound
    assert whole.novelty_limit == half.novelty_limit
