"""The stage `compress`, as the tiny run made it."""

import csv
from copy import deepcopy

import torch

from plumbline.compress.prune import channel_shares, prune, slopes
from plumbline.compress.stage import compress
from plumbline.core.files import read_json
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import parse_params
from plumbline.prepare.features.shards import save_shards
from plumbline.train.data.splits import load_splits
from tests.refusals import refuses
from tests.tiny import PARAMS
from tests.train.made import make_sequences


def test_the_written_model_is_the_smaller_one(tiny):
    before, after = (read_json(tiny.data(stage) / "metrics.json")["parameters"] for stage in ("train", "compress"))
    model = load_diagnosis(tiny.data("compress"))
    assert after == count_parameters(model.network)["total"] < 0.45 * before
    assert not model.training


def test_fine_tuning_is_on_record_and_is_said(tiny):
    with (tiny.data("compress") / "history.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert len(rows) == tiny.params.compress.epochs
    assert "pruned: " in tiny.said
    assert " parameters left (" in tiny.said


def test_what_stops_a_run_names_the_keys_of_this_section(tiny, tmp_path, monkeypatch):
    root = tiny.copy(tmp_path, "prepare", "train")
    content = deepcopy(PARAMS)
    content["compress"] |= {"epochs": 3, "batch_size": 16, "sensitivity": 0, "learning_rate": 1e30}
    monkeypatch.chdir(root)
    with refuses("training.diverged", "compress: ", "compress.learning_rate"):
        compress(root / "data/prepare", root / "data/train", parse_params(content), root / "data/compress")


def test_buildings_longer_than_the_network_takes_are_refused(tiny, tmp_path, monkeypatch):
    root = tiny.copy(tmp_path, "prepare", "train")
    longest = read_json(root / "data/train/model.json")["max_length"]
    save_shards([make_sequences(20, shortest=longest + 1, longest=longest + 1)], root / "data/prepare/tune")
    monkeypatch.chdir(root)
    places = (f"prepare.max_points: {longest} ", root / "data/train", root / "data/prepare/tune", f" {longest + 1} ")
    with refuses("max_points.too_small", *places):
        compress(root / "data/prepare", root / "data/train", parse_params(PARAMS), root / "data/compress")
    assert not (root / "data/compress").exists()


def test_frozen_parameters_stay_as_pruning_left_them(tiny, tmp_path, monkeypatch):
    root = tiny.copy(tmp_path, "prepare", "train")
    content = deepcopy(PARAMS)
    content["compress"] |= {"freeze": ["encoder.*", "*.bias"], "sensitivity": 0, "epochs": 2}
    params = parse_params(content)
    monkeypatch.chdir(root)
    compress(root / "data/prepare", root / "data/train", params, root / "data/compress")
    teacher, train = load_diagnosis(root / "data/train"), load_splits(root / "data/prepare").train
    section = params.compress
    found = slopes(teacher, train, params.train, section.importance_batches, params.train.seed)
    before = dict(prune(teacher, channel_shares(teacher, section), found).network.named_parameters())
    for name, value in load_diagnosis(root / "data/compress").network.named_parameters():
        assert torch.equal(before[name], value) == (name.startswith("encoder.") or name.endswith(".bias")), name
    assert not (root / "data/compress/sensitivity.csv").exists()


def test_it_is_calibrated_anew(tiny):
    whole, half = (load_diagnosis(tiny.data(stage)) for stage in ("train", "compress"))
    assert whole.interval_above.tolist() != half.interval_above.tolist()  # the temperature of so little is at its bound
    assert whole.novelty_limit == half.novelty_limit
