"""Size, latency and parity of a file."""

import dataclasses
import math
import time

import numpy as np
import onnx
import pytest
import torch

from plumbline.export.runtime import OnnxModel
from plumbline.model.diagnosis import load_diagnosis
from plumbline.params import Prepare
from plumbline.prepare.features.sequences import only
from plumbline.prepare.features.shards import load_shards
from plumbline.validate.measure import (
    judged_figures,
    novelty_figures,
    parity_figures,
    run_seconds,
    size_figures,
    torch_answers,
)
from tests.serve.made import answers_of


@pytest.fixture(scope="module")
def data(tiny):
    return load_shards(tiny.data("prepare") / "test")


@pytest.fixture(scope="module")
def released(tiny):
    return OnnxModel(tiny.data("export") / "pruned.onnx")


def test_size_is_that_of_the_file_and_of_its_numbers(tiny):
    path = tiny.data("export") / "pruned.onnx"
    figures = size_figures(path)
    held = onnx.load(path).graph.initializer
    assert figures["size_bytes"] == path.stat().st_size
    assert figures["weight_bytes"] == sum(onnx.numpy_helper.to_array(tensor).nbytes for tensor in held)
    assert figures["weight_bytes"] < figures["size_bytes"]


def known(answers):
    """Rows of the buildings that are like those of training: parity is of these."""
    return np.flatnonzero(answers.novelty < 0.999)


def test_parity_is_the_largest_difference_of_any_building(tiny, data, released):
    model, answers = load_diagnosis(tiny.data("compress")), released.answer(data)
    assert max(parity_figures(model, data, answers).values()) < 1e-4
    first, last = known(answers)[[0, -1]]
    answers.quadrant_probability[first, 2] += 0.25
    answers.severity_permille[last] -= 0.5
    figures = parity_figures(model, data, answers)
    assert figures["parity_probability"] == pytest.approx(0.25, abs=1e-5)
    assert figures["parity_severity_permille"] == pytest.approx(0.5, abs=1e-4)


def test_parity_is_of_the_buildings_that_are_known(tiny, data, released):
    model, answers = load_diagnosis(tiny.data("compress")), released.answer(data)
    novelty = torch_answers(model, data).novelty
    order = np.argsort(novelty)
    limit = model.get_buffer("novelty_limit")
    # So that half of the buildings are beyond the limits.
    limit.mul_(float(novelty[order[len(order) // 2]]))
    answers.quadrant_probability[order[-1], 0] += 0.5
    assert parity_figures(model, data, answers)["parity_probability"] < 1e-5
    answers.quadrant_probability[order[0], 0] += 0.25
    assert parity_figures(model, data, answers)["parity_probability"] == pytest.approx(0.25, abs=1e-5)
    limit.mul_(1e-6)  # nothing is known: then all count
    assert parity_figures(model, data, answers)["parity_probability"] == pytest.approx(0.5, abs=1e-5)


@pytest.mark.parametrize("place", [0, -1])
def test_a_broken_answer_is_never_parity(tiny, data, released, place):
    """Python's max(0.0, nan) is 0.0: a model of NaNs would agree with torch to the last digit."""
    answers = released.answer(data)
    place = known(answers)[place]
    answers.quadrant_probability[place] = np.nan
    answers.severity_permille[place] = np.nan
    figures = parity_figures(load_diagnosis(tiny.data("compress")), data, answers)
    assert math.isnan(figures["parity_probability"])
    assert math.isnan(figures["parity_severity_permille"])


def test_novelty_changes_by_limits_and_far_out_relatively(tiny, data, released):
    whole = load_diagnosis(tiny.data("train"))
    own = whole.novelty(torch.from_numpy(np.array(data.geometry, np.float32))).detach().numpy()
    answers = released.answer(data)

    def change(novelty):
        return novelty_figures(whole, data, answers._replace(novelty=novelty))["novelty_change"]

    assert change(own) == 0
    less = own.copy()
    less[3] -= 0.25 * max(1, own[3])
    assert change(less) == pytest.approx(0.25, rel=1e-4)
    less[-1] = np.nan
    assert math.isnan(change(less))
    whole.get_buffer("novelty_limit").fill_(1e-6)
    assert change(1.1 * whole.novelty(torch.from_numpy(np.array(data.geometry, np.float32))).detach().numpy()) == (
        pytest.approx(0.1, rel=1e-4)
    )


def test_what_would_be_judged_is_measured_apart(data):
    """Six buildings: two are judged and right, one is judged and wrong, and one each is torn, novel and broken."""
    some = data.parts[0].take(np.arange(6))
    some = dataclasses.replace(some, severity=np.full(6, 2.0, np.float32), quadrant=np.zeros(6, np.int64))
    some = dataclasses.replace(some, accepted=only(some.quadrant))
    confidence = np.array([0.9, 0.5, 0.7, 0.4, 0.9, 0.9], np.float32)
    probability = np.repeat((1 - confidence[:, None]) / 3, 4, 1)
    probability[np.arange(6), [0, 0, 1, 0, 0, 0]] = confidence
    severity = np.array([2.0, 1.5, 2.5, 2.0, 2.0, np.nan], np.float32)
    novelty = np.array([0.1, 0.1, 0.1, 0.1, 1.1, 0.1], np.float32)
    answers = answers_of(probability, severity, severity, severity, novelty, p_damaged=1.0)
    limits = Prepare(max_strain_error_permille=100.0, min_quadrant_confidence=0.5)
    assert judged_figures(some, answers, limits) == pytest.approx(
        {"judged_share": 0.5, "judged_severity_mae": 1 / 3, "judged_quadrant_accuracy": 2 / 3}
    )
    either = dataclasses.replace(some, accepted=only(some.quadrant) | only(some.quadrant + 1))
    assert judged_figures(either, answers, limits)["judged_quadrant_accuracy"] == 1
    none = judged_figures(some, answers, limits.model_copy(update={"max_strain_error_permille": 1e-6}))
    assert none == {"judged_share": 0.0}
    undamaged = dataclasses.replace(some, quadrant=np.full(6, -1))
    assert "judged_quadrant_accuracy" not in judged_figures(undamaged, answers, limits)


class Counting:
    """Takes a known time, and remembers what it was given."""

    def __init__(self, seconds=0.0):
        self.seconds, self.given = seconds, []

    def run(self, inputs):
        self.given.append(inputs)
        time.sleep(self.seconds)


@pytest.mark.parametrize(
    ("batches", "options", "wanted"),
    [("ab", {"repeats": 5}, "abaababa"), ("a", {"repeats": 100, "most_seconds": 0.01}, "aaa")],
    ids=["as many as asked for", "a slow model twice, after one warm-up"],
)
def test_runs_go_round_the_batches(batches, options, wanted):
    model = Counting(0.02)
    times = run_seconds(model, list(batches), **options)
    assert "".join(model.given) == wanted
    assert times.min() >= 0.02
