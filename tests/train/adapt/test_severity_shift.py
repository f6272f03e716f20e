from statistics import NormalDist

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plumbline.train.adapt.fit import MIN_FACTOR, Level, chance_of_less, fit_level, on_scale_of, set_level
from plumbline.train.calibrate.probabilities import raw_answers
from tests.model.made import small_model
from tests.train.made import make_sequences


def said(count: int, seed: int = 0) -> torch.Tensor:
    return torch.from_numpy(np.random.default_rng(seed).normal(size=count))


@given(st.floats(0.6, 1.5), st.floats(-2, 2))
def test_an_exact_line_is_found(factor, offset):
    found = fit_level(said(40), factor * said(40) + offset)
    assert found.factor == pytest.approx(factor, abs=0.01)
    assert found.offset == pytest.approx(offset, abs=0.01)


def test_one_label_in_ten_that_is_wrong_hardly_counts():
    true = said(50) - 0.7 + 0.3 * said(50, 1)
    true[:5] += 20
    found = fit_level(said(50), true)
    assert found.factor == pytest.approx(1, abs=0.15)
    assert found.offset == pytest.approx(-0.7, abs=0.2)


def test_few_labels_that_scatter_say_less_than_many():
    few, many = (fit_level(said(n), said(n) - 1 + 4 * said(n, 1)) for n in (3, 3000))
    assert abs(few.offset) < 0.6
    assert many.offset == pytest.approx(-1, abs=0.3)


def test_more_damage_is_never_called_less():
    assert fit_level(said(400), -3 * said(400)).factor == MIN_FACTOR


def test_the_level_is_that_of_what_the_model_says():
    before, model = small_model(24), small_model(24)
    before.severity_limit.fill_(5.0)
    model.severity_limit.fill_(5.0)
    set_level(model, Level(0.8, -0.3))
    standard = torch.tensor([-0.4, 0.1, 0.5, 100.0])
    torch.testing.assert_close(model.permille(standard)[:3], before.permille(0.8 * standard - 0.3)[:3])
    most = before.standard_severity(torch.tensor(5.0))
    torch.testing.assert_close(model.permille(standard)[3], before.permille(0.8 * most - 0.3))


def test_answers_at_another_level_are_compared_in_the_units_of_the_base():
    base, model = small_model(24), small_model(24)
    raw = raw_answers(base, make_sequences(9))
    set_level(model, Level(0.5, 2.0))
    moved = on_scale_of(base, model, raw)
    torch.testing.assert_close(moved.severity_B3, 0.5 * raw.severity_B3 + 2)
    torch.testing.assert_close(on_scale_of(model, base, moved).severity_B3, raw.severity_B3)


def test_how_probable_a_gain_is_depends_on_its_size_and_on_how_many_show_it():
    noise = torch.tensor([1.0, -1.0]).repeat(200)
    for count in (20, 100, 400):
        error = float((noise[:count] - 0.1).std()) / count**0.5
        found = chance_of_less(noise[:count] + 2, noise[:count] * 0 + 2 - 0.1)
        assert found == pytest.approx(NormalDist().cdf(0.1 / error), abs=1e-6)
    assert chance_of_less(noise, noise) == 0
    assert chance_of_less(noise, noise - 1) == 1
    assert chance_of_less(noise, noise + 1) == 0
