"""What users give a model by mistake: refused before the runtime sees it, by what was found and what is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from plumbline.core.errors import InputError
from plumbline.export.runtime import OnnxModel
from plumbline.prepare.features.shards import load_shards


@pytest.fixture(scope="module")
def model(tiny):
    return OnnxModel(tiny.data("export") / "pruned.onnx")


@pytest.fixture(scope="module")
def data(tiny):
    return load_shards(tiny.data("prepare") / "test")


def put(name, place, value):
    def change(inputs):
        inputs[name] = inputs[name].copy()
        inputs[name][place] = value

    return change


def turn(name, by):
    return lambda inputs: inputs.update({name: by(inputs[name])})


WRONG = {
    "missing": (lambda i: i.pop("slope"), r"'slope' is missing; distance, slope, geometry, mask are needed"),
    "unknown": (lambda i: i.update(slopes=i["slope"]), r"'slopes' is unknown"),
    "a number and a name": (lambda i: i.update({3: 0, "x": 0}), r"3 is unknown"),
    "rows of a mask that differ": (turn("mask", lambda v: [[True], [True, True]]), "mask: rows of different lengths"),
    "a list": (turn("geometry", np.ndarray.tolist), r"geometry: list found, a numpy array of float32 \(4, 76\) needed"),
    "a tensor": (turn("slope", torch.from_numpy), r"slope: Tensor found, a numpy array"),
    "double": (turn("slope", lambda v: v.astype(float)), r"slope: float64 \(4, .* found, a numpy array of float32"),
    "bytes swapped": (turn("slope", lambda v: v.astype(">f4")), r"slope: >f4 .* found, a numpy array of float32"),
    "a mask of numbers": (
        turn("mask", lambda v: v.astype(np.float32)),
        r"mask: float32 .* of bool",
    ),
    "one building": (turn("geometry", lambda v: v[0]), r"geometry: float32 \(76,\) found, .* \(4, 76\) needed"),
    "flat": (turn("mask", lambda v: v[0]), r"distance: .* \(batch, length, 6\) needed"),
    "a column short": (turn("slope", lambda v: v[..., :-1]), r"slope: float32 \(4, \d+, 15\) found, .*, 16\) needed"),
    "turned": (turn("distance", lambda v: v.transpose(0, 2, 1)), r"distance: float32 .* found, .*, 6\) needed"),
    "other buildings": (turn("geometry", lambda v: v[:3]), r"geometry: float32 \(3, 76\) found, .* \(4, 76\) needed"),
    "other padding": (turn("mask", lambda v: v[:, :2]), r"distance: float32 .* found, .* \(4, 2, 6\) needed"),
    "an empty row": (put("mask", 2, False), r"mask: building 2 of the batch has no scatterer"),
    "turned round": (turn("mask", lambda v: v[:, ::-1].copy()), r"mask: building \d of the batch has padding before a"),
    "a gap": (put("mask", (3, 1), False), r"mask: building 3 of the batch has padding before a scatterer\. Scatterers"),
    "NaN": (put("slope", (1, 0, 3), np.nan), r"slope: nan found at building 1, scatterer 0, robust_weight \(1\)"),
    "infinity": (put("geometry", (3, 0), -np.inf), r"geometry: -inf found at building 3, side_x \(m\); numbers"),
    "two infinities": (put("geometry", (3, slice(0, 2)), [np.inf, -np.inf]), r"geometry: inf found at building 3"),
}


@pytest.mark.parametrize("inputs", [None, [], 1.0])
def test_what_is_no_dictionary_is_refused(model, inputs):
    with pytest.raises(InputError, match=r"model inputs: \w+ found, a dictionary with distance, slope, geometry, mask"):
        model.run(inputs)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named(model, data, wrong):
    inputs = data.pad(np.arange(4))
    change, said = WRONG[wrong]
    change(inputs)
    with pytest.raises(InputError, match="model inputs: " + said):
        model.run(inputs)


def test_what_is_not_finite_in_the_padding_is_named_as_such(model, data):
    inputs = data.pad(np.arange(4), 100)
    put("distance", (0, 99, 1), np.nan)(inputs)
    with pytest.raises(
        InputError, match=r"nan found at building 0, scatterer 99, y \(m\).* in the padding too: give zeros"
    ):
        model.run(inputs)


def test_a_sum_that_overflows_is_no_fault_of_the_data(model, data):
    inputs = data.pad(np.arange(4), 100)
    inputs["slope"][~inputs["mask"]] = 3e38
    expected = model.run(data.pad(np.arange(4), 100))
    assert np.allclose(model.run(inputs).severity_permille, expected.severity_permille, atol=1e-4)


def test_longer_than_the_model_takes_is_refused_and_the_longest_is_not(model, data):
    assert np.isfinite(model.run(data.pad(np.arange(2), 128)).severity_permille).all()
    with pytest.raises(
        InputError, match=r"129 scatterers a building found, at most 128 allowed\. `prepare\.max_points`"
    ):
        model.run(data.pad(np.arange(2), 129))


def test_an_empty_batch_has_no_answers(model, data):
    for length in (0, 1, 9):
        answers = model.run(data.pad(np.zeros(0, dtype=int), length))
        assert [part.shape for part in answers] == [(0, 4), (0,), (0,), (0,), (0,), (0, 4), (0, 5), (0, 16), (0, 6)]


@pytest.mark.parametrize(
    ("length", "said"), [(0, "0 scatterers found, 1 to 128 needed"), (129, "129 scatterers found")]
)
def test_all_buildings_are_looked_at_before_the_first_is_answered_for(model, data, length, said, monkeypatch):
    few = data.take(np.arange(3))
    monkeypatch.setattr(model, "execute", lambda inputs: pytest.fail("asked"))
    offsets = np.cumsum([0, few.length[0], length, few.length[2]])
    rows = np.zeros(offsets[-1], dtype=int)
    harmed = replace(few, offsets=offsets, distance=few.distance[rows], slope=few.slope[rows])
    with pytest.raises(InputError, match=f"building 1 of the data: {said}"):
        model.answer(harmed)


def test_of_all_buildings_only_one_without_numbers_has_no_answer(model, data):
    few = data.take(np.arange(5))
    slope = few.slope.copy()
    slope[few.offsets[2]] = np.nan
    answers, expected = model.answer(replace(few, slope=slope)), model.answer(few)
    assert np.isnan(answers.severity_permille).tolist() == [False, False, True, False, False]
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(answers.severity_permille[others], expected.severity_permille[others], atol=1e-5)
