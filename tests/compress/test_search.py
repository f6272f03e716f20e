"""The search for the ratio: what it keeps to, what it remembers, and what it cannot give."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from plumbline.compress.search import FINEST, RATIOS, Pruning, drawn, scan, search
from plumbline.core.errors import InputError
from plumbline.model.diagnosis import load_diagnosis
from plumbline.model.network import count_parameters
from plumbline.params import Compress
from plumbline.params.compress import Short, Target
from plumbline.prepare.features.shards import load_shards
from tests.tiny import Tiny

TRIES = 2


@pytest.fixture(scope="module")
def tune(tiny: Tiny):
    return load_shards(tiny.data("prepare") / "tune")


@pytest.fixture(scope="module")
def pruning(tiny: Tiny):
    section = Compress.model_validate(
        {
            "target": {"max_drop": 0.05, "severity": 0.05, "tries": TRIES},
            "epochs": 1,
            "patience": 1,
            "pruning_steps": 2,
            "learning_rate": 0.001,
            "batch_size": 16,
            "importance_batches": 1,
            "short": {"buildings": 20, "epochs": 1},
        }
    )
    train = load_shards(tiny.data("prepare") / "train")
    return Pruning.of(load_diagnosis(tiny.data("train")), train, section, tiny.params.train)


@pytest.fixture(scope="module")
def searched(pruning, tune, tmp_path_factory):
    work = tmp_path_factory.mktemp("search")
    return *search(pruning, pruning.section.target, tune, work), work


def test_each_try_halves_what_is_not_known(searched, pruning):
    model, rows, _ = searched
    target = pruning.section.target
    low, high = 0.0, target.largest_ratio
    for row in rows[1:]:
        assert row["ratio"] == pytest.approx((low + high) / 2)
        assert row["within"] == (row["drop"] <= target.max_drop and row["rise"] <= target.severity)
        low, high = (row["ratio"], high) if row["within"] else (low, row["ratio"])
    assert len(rows) == TRIES + 1
    (chosen,) = (row for row in rows if row["chosen"])
    assert chosen["ratio"] == low
    assert chosen["parameters"] == count_parameters(model.network)["total"]
    assert chosen["parameters"] == min(row["parameters"] for row in rows if row["within"])


def test_a_search_that_was_killed_goes_on_where_it_was(searched, pruning, tune, tmp_path):
    model, rows, work = searched
    folders = sorted(path.name for path in work.iterdir())
    assert len(folders) == TRIES
    # All but one try is there; the one that is missing is made again, and alike.
    for name in folders[:-1]:
        (tmp_path / name).symlink_to(work / name)
    again, found = search(pruning, pruning.section.target, tune, tmp_path)
    assert found == rows
    assert all(torch.equal(value, model.state_dict()[name]) for name, value in again.state_dict().items())


def test_a_size_is_kept_to_by_the_smallest_ratio(pruning, tune, tmp_path):
    whole = count_parameters(pruning.teacher.network)["total"]
    model, rows = search(pruning, Target(max_parameters=2 * whole // 3), tune, tmp_path)
    assert count_parameters(model.network)["total"] <= 2 * whole // 3
    (chosen,) = (row for row in rows if row["chosen"])
    below = max(row["ratio"] for row in rows if not row["within"])
    assert 0 < chosen["ratio"] - below <= FINEST
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_a_size_is_kept_to_in_steps_and_the_table_has_that_of_the_network(pruning, tune, tmp_path, monkeypatch, seed):
    """Streams of other inputs, whose shares are found anew in each step: another size than at once."""

    def moved(self, model):
        for parameter in model.parameters():
            parameter.data += 0.3 * torch.randn_like(parameter) * parameter.data.std().nan_to_num(0.1)

    torch.manual_seed(seed)
    monkeypatch.setattr(Pruning, "tune", moved)
    stepped = replace(pruning, section=pruning.section.model_copy(update={"pruning_steps": 4}))
    most = count_parameters(pruning.teacher.network)["total"] // 2
    model, rows = search(stepped, Target(max_parameters=most), tune, tmp_path)
    (chosen,) = (row for row in rows if row["chosen"])
    assert count_parameters(model.network)["total"] == chosen["parameters"] <= most


def test_a_size_that_it_has_already_takes_nothing_away(pruning, tune, tmp_path):
    whole = count_parameters(pruning.teacher.network)["total"]
    model, _ = search(pruning, Target(max_parameters=whole), tune, tmp_path)
    assert count_parameters(model.network)["total"] == whole


def test_a_size_that_no_ratio_gives_is_refused_with_what_there_is(pruning, tune, tmp_path):
    with pytest.raises(InputError, match=r"max_parameters: 1 found; \d+ are left at largest_ratio 0.9"):
        search(pruning, Target(max_parameters=1), tune, tmp_path)


def test_fine_tuning_follows_the_teacher(pruning):
    """With the same start, buildings and seed: who follows ends nearer to the teacher in both answers."""
    padded = pruning.train.pad(np.arange(len(pruning.train)))
    inputs = [torch.from_numpy(np.array(padded[name])) for name in ("distance", "slope", "geometry", "mask")]
    apart = []
    for weight in (0.0, 100.0):
        short = Short(buildings=60, epochs=10, learning_rate=0.003)
        section = pruning.section.model_copy(update={"distil_weight": weight, "short": short})
        following = replace(pruning, section=section)
        model = following.at_once(0.4)
        following.tune(model)
        with torch.inference_mode():
            own, wanted = model.raw(*inputs), pruning.teacher.raw(*inputs)
        quadrants = (own.logits_B4.softmax(-1) - wanted.logits_B4.softmax(-1)).abs().mean()
        apart.append((float(quadrants), float((own.severity_B3 - wanted.severity_B3).abs().mean())))
    assert all(after < without for without, after in zip(*apart, strict=True))


def test_the_scan_has_every_group_alone(pruning, tune):
    rows = scan(pruning, tune, 10)
    groups = list(dict.fromkeys(row["group"] for row in rows))
    assert [row["ratio"] for row in rows] == [0.0, *RATIOS] * len(groups)
    whole = count_parameters(pruning.teacher.network)["total"]
    for group in groups:
        sizes = [row["parameters"] for row in rows if row["group"] == group]
        assert sizes[0] == whole
        assert sizes == sorted(sizes, reverse=True)
        assert sizes[-1] < whole
    svg = drawn(rows)
    assert svg.startswith("<svg")
    assert svg.count("<polyline") == len(groups)
    assert all(group in svg for group in groups)
