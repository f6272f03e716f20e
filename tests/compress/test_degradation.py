"""What a network loses against another, and the standard error of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from plumbline.compress.search import Rightness, loss_against, rightness_of
from plumbline.model.diagnosis import load_diagnosis
from plumbline.prepare.features.shards import load_shards


def judged(right, error):
    return Rightness(np.array(right, float), np.array(error, float))


def test_the_loss_is_a_difference_with_the_error_of_pairs():
    large, small = judged([1, 1, 1, 0], [1, 1, 2]), judged([1, 0, 1, 0], [1, 2, 3])
    loss = loss_against(small, large)
    assert loss.drop == pytest.approx(0.25)
    # One of four differs by 1: variance 4/3 * (1/4 - 1/16), over four.
    assert loss.drop_se == pytest.approx(np.sqrt(4 / 3 * (1 / 4 - 1 / 16) / 4))
    assert loss.rise == pytest.approx((2 - 4 / 3) / (4 / 3))
    assert loss.rise_se == pytest.approx(np.std([0, 1, 1], ddof=1) / np.sqrt(3) / (4 / 3))


def test_a_network_loses_nothing_against_itself():
    same = judged([1, 0], [0.5, 2])
    assert tuple(loss_against(same, same)) == (0, 0, 0, 0)


def test_no_building_with_a_quadrant_is_no_drop():
    assert loss_against(judged([], [1]), judged([], [2]))[:2] == (0, 0)


def test_judging_agrees_with_the_metrics_of_training(tiny):

    tune = load_shards(tiny.data("prepare") / "tune")
    model = load_diagnosis(tiny.data("train"))
    found = rightness_of(model, tune)
    inputs = {name: tune.pad(np.arange(len(tune)))[name] for name in ("distance", "slope", "geometry", "mask")}
    with torch.inference_mode():
        answer = model(*(torch.from_numpy(np.array(value)) for value in inputs.values()))
    error = np.abs(answer.severity_permille.numpy() - np.asarray(tune.severity))
    assert found.severity_mae == pytest.approx(error.mean(), rel=1e-5)
    defined = np.asarray(tune.quadrant) >= 0
    hit = np.asarray(tune.accepted)[np.arange(len(tune)), answer.quadrant_probability.numpy().argmax(1)][defined]
    assert found.quadrant_accuracy == pytest.approx(hit.mean())
    assert len(found.right) == defined.sum()
