"""Data that cannot be trained on are refused before a run, by building and column."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from plumbline.compress.stage import compress
from plumbline.model.spec import new_spec
from plumbline.prepare.features.shards import save_shards
from plumbline.train.data.splits import check_lengths, load_splits
from plumbline.train.stage import train
from tests.refusals import refuses, warned, warning_keys
from tests.train.fit.test_trainer import run
from tests.train.made import SPLITS, make_params, make_sequences, save_prepared


@pytest.fixture
def prepared(tmp_path):
    return save_prepared(tmp_path / "prepare")


def spoil(prepared, split, array, building, value):
    """Save the split anew in two shards, with a value in the last row of a building and the last column."""
    made = make_sequences(SPLITS[split], 7)
    values = getattr(made, array)
    row = made.offsets[building + 1] - 1 if array in ("distance", "slope") else building
    values[(row, -1) if values.ndim == 2 else row] = value
    for old in (prepared / split).iterdir():
        for path in old.iterdir():
            path.unlink()
        old.rmdir()
    save_shards([made], prepared / split, buildings=SPLITS[split] // 2)


@pytest.mark.parametrize("split", ["train", "tune", "calibrate"])
def test_an_empty_split_is_refused(prepared, split):
    (old,) = (prepared / split).iterdir()
    make_sequences(5).take(np.arange(0)).save(old)
    with refuses("split.too_small", prepared / split, f"prepare.split.{split}"):
        train(prepared, make_params(), Path("out"))
    with refuses("split.too_small", prepared / split):
        compress(prepared, Path("nowhere"), make_params(), Path("out"))


def test_a_calibrate_split_that_no_interval_can_be_found_on_is_refused_before_training(prepared):
    (old,) = (prepared / "calibrate").iterdir()
    make_sequences(9).save(old)
    load_splits(prepared)
    make_sequences(8).save(old)
    with refuses("split.too_small", "calibrate: 8 buildings", "9 needed", "90%"):
        load_splits(prepared)
    (old,) = (prepared / "tune").iterdir()
    make_sequences(1).save(old)
    (old,) = (prepared / "calibrate").iterdir()
    make_sequences(1).save(old)
    with refuses("split.too_small", "calibrate: 1 building ", "9 needed"):
        load_splits(prepared)


@pytest.mark.parametrize(
    ("array", "value", "key"),
    [
        *((array, value, "not_a_number") for array in ("distance", "slope", "geometry") for value in (np.nan, -np.inf)),
        *(("severity", value, "bad_severity") for value in (np.nan, np.inf, -0.5)),
        *(("quadrant", value, "bad_quadrant") for value in (4, -2)),
    ],
)
@pytest.mark.parametrize(("split", "building"), [("train", 0), ("tune", 29), ("calibrate", 59)])
def test_what_cannot_be_trained_on_is_named_by_split_building_and_array(prepared, array, value, key, split, building):
    spoil(prepared, split, array, building, value)
    with refuses(f"split.{key}", f"{prepared / split}: building b{building} of made: {array}: ", "`plumbline prepare`"):
        load_splits(prepared)


def test_a_building_without_a_scatterer_is_refused(prepared):
    made = make_sequences(60, 7)
    rows = np.delete(np.arange(made.offsets[-1]), np.arange(made.offsets[3], made.offsets[4]))
    offsets = made.offsets - np.where(np.arange(61) > 3, made.length[3], 0)
    (old,) = (prepared / "tune").iterdir()
    replace(made, offsets=offsets, distance=made.distance[rows], slope=made.slope[rows]).save(old)
    with refuses("split.no_scatterer", f"{prepared / 'tune'}: building b3 of made"):
        load_splits(prepared)


@pytest.mark.parametrize("split", ["train", "tune", "calibrate"])
def test_data_prepared_with_more_points_than_the_params_say_are_refused(split, work):
    """The model would answer `predict` about so few points of a building as it was never trained on."""
    save_shards([make_sequences(60, shortest=30, longest=30)], work / "data" / "prepare" / split)
    with refuses("max_points.too_small", ".max_points: 24 ", f"prepare/{split} ", " 30 ", "`plumbline prepare`"):
        run()


@pytest.mark.parametrize(
    ("model", "keys"),
    [
        ({"max_attention_length": 4}, ["attention.unused"]),
        ({"max_attention_length": 5}, []),
        ({"max_attention_length": 4, "attention": "none"}, []),
    ],
    ids=["below", "shortest", "none"],
)
def test_attention_that_no_building_gets_is_told_of(model, keys, prepared, caplog):
    check_lengths(load_splits(prepared), prepared, new_spec(make_params(model).model, 24))
    assert warning_keys(caplog) == keys
    for key in keys:
        assert warned(caplog, key, "model.max_attention_length: 4 ", prepared / "train", " 5 ", "attention_layers")
