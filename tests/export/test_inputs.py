"""What users give a model by mistake: refused before the runtime sees it, by what was found and what is needed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.refusals import refuses


def put(name, place, value):
    def change(inputs):
        inputs[name] = inputs[name].copy()
        inputs[name][place] = value

    return change


def turn(name, by):
    return lambda inputs: inputs.update({name: by(inputs[name])})


WRONG = {
    "missing": (lambda i: i.pop("slope"), "wrong_name", "'slope' is missing", "distance, slope, geometry, mask"),
    "unknown": (lambda i: i.update(slopes=i["slope"]), "wrong_name", "'slopes' is unknown"),
    "a number and a name": (lambda i: i.update({3: 0, "x": 0}), "wrong_name", "3 is unknown"),
    "rows of a mask that differ": (turn("mask", lambda v: [[True], [True, True]]), "unequal_rows", "mask"),
    "a list": (turn("geometry", np.ndarray.tolist), "wrong_array", "geometry: list", "float32 (4, 76)"),
    "a tensor": (turn("slope", torch.from_numpy), "wrong_array", "slope: Tensor"),
    "double": (turn("slope", lambda v: v.astype(float)), "wrong_array", "slope: float64 (4, ", "float32"),
    "bytes swapped": (turn("slope", lambda v: v.astype(">f4")), "wrong_array", "slope: >f4", "float32"),
    "a mask of numbers": (turn("mask", lambda v: v.astype(np.float32)), "wrong_array", "mask: float32", "bool"),
    "one building": (turn("geometry", lambda v: v[0]), "wrong_array", "geometry: float32 (76,)", "(4, 76)"),
    "flat": (turn("mask", lambda v: v[0]), "wrong_array", "distance: ", "(batch, length, 6)"),
    "a column short": (turn("slope", lambda v: v[..., :-1]), "wrong_array", "slope: float32 (4, ", ", 15)", ", 16)"),
    "turned": (turn("distance", lambda v: v.transpose(0, 2, 1)), "wrong_array", "distance: float32", ", 6)"),
    "other buildings": (turn("geometry", lambda v: v[:3]), "wrong_array", "geometry: float32 (3, 76)", "(4, 76)"),
    "other padding": (turn("mask", lambda v: v[:, :2]), "wrong_array", "distance: float32", "(4, 2, 6)"),
    "an empty row": (put("mask", 2, False), "no_scatterer", "mask: building 2"),
    "turned round": (turn("mask", lambda v: v[:, ::-1].copy()), "padding_first", "mask: building"),
    "a gap": (put("mask", (3, 1), False), "padding_first", "mask: building 3"),
    "NaN": (put("slope", (1, 0, 3), np.nan), "not_a_number", "slope: nan", "building 1, scatterer 0, robust_weight"),
    "infinity": (put("geometry", (3, 0), -np.inf), "not_a_number", "geometry: -inf", "building 3, side_x (m)"),
    "two": (put("geometry", (3, slice(0, 2)), [np.inf, -np.inf]), "not_a_number", "geometry: inf", "building 3"),
}


@pytest.mark.parametrize("inputs", [None, [], 1.0])
def test_what_is_no_dictionary_is_refused(model, inputs):
    with refuses("inputs.not_a_dictionary", type(inputs).__name__, "distance, slope, geometry, mask"):
        model.run(inputs)


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_wrong_is_named(model, data, wrong):
    inputs = data.pad(np.arange(4))
    change, problem, *places = WRONG[wrong]
    change(inputs)
    with refuses(f"inputs.{problem}", *places):
        model.run(inputs)


def test_what_is_not_finite_in_the_padding_is_named_as_such(model, data):
    inputs = data.pad(np.arange(4), 100)
    put("distance", (0, 99, 1), np.nan)(inputs)
    with refuses("inputs.not_a_number", "distance: nan", "building 0, scatterer 99, y (m)", "padding"):
        model.run(inputs)


def test_a_sum_that_overflows_is_no_fault_of_the_data(model, data):
    inputs = data.pad(np.arange(4), 100)
    inputs["slope"][~inputs["mask"]] = 3e38
    expected = model.run(data.pad(np.arange(4), 100))
    assert np.allclose(model.run(inputs).severity_permille, expected.severity_permille, atol=1e-4)


def test_longer_than_the_model_takes_is_refused_and_the_longest_is_not(model, data):
    assert np.isfinite(model.run(data.pad(np.arange(2), 128)).severity_permille).all()
    with refuses("inputs.too_long", 129, 128, "`prepare.max_points`"):
        model.run(data.pad(np.arange(2), 129))


def test_an_empty_batch_has_no_answers(model, data):
    for length in (0, 1, 9):
        answers = model.run(data.pad(np.zeros(0, dtype=int), length))
        assert [part.shape for part in answers] == [(0, 4), (0,), (0,), (0,), (0,), (0, 4), (0, 5), (0, 16), (0, 6)]


@pytest.mark.parametrize("length", [0, 129])
def test_all_buildings_are_looked_at_before_the_first_is_answered_for(model, data, length, monkeypatch):
    few = data.take(np.arange(3))
    monkeypatch.setattr(model, "execute", lambda inputs: pytest.fail("asked"))
    offsets = np.cumsum([0, few.length[0], length, few.length[2]])
    rows = np.zeros(offsets[-1], dtype=int)
    harmed = replace(few, offsets=offsets, distance=few.distance[rows], slope=few.slope[rows])
    with refuses("inputs.scatterer_count", "building 1", f"{length} scatterers", "1 to 128"):
        model.answer(harmed)


def test_of_all_buildings_only_one_without_numbers_has_no_answer(model, data):
    few = data.take(np.arange(5))
    slope = few.slope.copy()
    slope[few.offsets[2]] = np.nan
    answers, expected = model.answer(replace(few, slope=slope)), model.answer(few)
    assert np.isnan(answers.severity_permille).tolist() == [False, False, True, False, False]
    others = [0, 1, 3, 4]
    np.testing.assert_allclose(answers.severity_permille[others], expected.severity_permille[others], atol=1e-5)
