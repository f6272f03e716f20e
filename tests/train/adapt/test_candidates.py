from statistics import NormalDist

import pytest
import torch

from plumbline.train.adapt.fit import Level, chance_of_less, on_scale_of, set_level
from plumbline.train.calibrate.conformal import RawAnswers
from tests.model.made import raw_answer, small_model


def raw(quadrant: list[int]) -> RawAnswers:
    count = len(quadrant)
    severity = torch.arange(3.0).expand(count, 3)
    logits = torch.eye(4)[torch.arange(count) % 4]
    true = torch.tensor(quadrant)
    said = raw_answer(logits_B4=logits)
    return RawAnswers(
        logits_B4=logits,
        severity_B3=severity,
        quadrant_B=true,
        standard_B=torch.full((count,), 1.5),
        kind_BK=torch.zeros(count, 1),
        accepted_logits_B4=said.accepted_B4,
        levels_BK=said.levels_BK,
        mechanism_logits_BM=said.mechanism_BM,
        accepted_B4=true[:, None] == torch.arange(4),
        mechanism_B=torch.full((count,), -1),
    )


def test_answers_at_another_level_are_compared_in_the_units_of_the_base():
    base, model = small_model(24), small_model(24)
    set_level(model, Level(0.5, 2.0))
    moved = on_scale_of(base, model, raw([0, 1]))
    torch.testing.assert_close(moved.severity_B3, 0.5 * raw([0, 1]).severity_B3 + 2)
    torch.testing.assert_close(on_scale_of(model, base, moved).severity_B3, raw([0, 1]).severity_B3)


def test_how_probable_a_gain_is_depends_on_its_size_and_on_how_many_show_it():
    noise = torch.tensor([1.0, -1.0]).repeat(200)
    for count in (20, 100, 400):
        error = float((noise[:count] - 0.1).std()) / count**0.5
        found = chance_of_less(noise[:count] + 2, noise[:count] * 0 + 2 - 0.1)
        assert found == pytest.approx(NormalDist().cdf(0.1 / error), abs=1e-6)
    assert chance_of_less(noise, noise) == 0
    assert chance_of_less(noise, noise - 1) == 1
    assert chance_of_less(noise, noise + 1) == 0
