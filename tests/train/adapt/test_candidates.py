from statistics import NormalDist

import pytest
import torch

from plumbline.train.adapt.fit import Level, chance_of_less, on_scale_of, set_level
from plumbline.train.calibrate.probabilities import raw_answers
from tests.model.made import small_model
from tests.train.made import make_sequences


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
