from statistics import NormalDist

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plumbline.train.adapt.fit import Level, building_losses, chance_of_less, first_as_good, on_scale_of, set_level
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


def test_severity_counts_everywhere_and_quadrants_where_they_are_defined():
    found = building_losses(raw([0, -1, 2, -1]), 1.0, 2.0)
    assert torch.equal(found[[1, 3]], torch.tensor([1.0, 1.0]))  # 2 x |1 - 1.5|
    assert (found[[0, 2]] > 1).all()
    assert torch.equal(building_losses(raw([-1, -1]), 1.0, 2.0), torch.tensor([1.0, 1.0]))


def test_all_right_answers_are_wanted_alike():
    one = raw([0, 1])
    both = one._replace(accepted_B4=torch.tensor([[True, False, False, True], [False, True, True, False]]))
    half = both._replace(logits_B4=torch.tensor([[8.0, 0, 0, 8], [0, 8, 8, 0]]))
    assert (building_losses(half, 1.0, 0.0) < building_losses(both, 1.0, 0.0) - 0.3).all()


def test_being_sure_is_no_merit_of_its_own():
    """The temperature is set anew: ten times the logits are the same answers."""
    one = raw([0, 1, 3, 3])
    thrice = building_losses(one._replace(logits_B4=3 * one.logits_B4), 1, 1)
    torch.testing.assert_close(thrice, building_losses(one, 1, 1), rtol=0.01, atol=0)  # temperatures are tried in steps


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


@given(st.lists(st.tuples(st.floats(0, 10), st.floats(0, 10)), min_size=2, max_size=30))
def test_a_gain_is_as_probable_as_the_loss_is_not(pairs):
    one, other = torch.tensor(pairs, dtype=torch.double).T
    found = chance_of_less(one, other)
    assert 0 <= found <= 1
    if float((one - other).std()) > 1e-6:
        assert found + chance_of_less(other, one) == pytest.approx(1, abs=1e-6)


def test_a_clear_gain_is_taken_and_an_unclear_one_is_not():
    noise = torch.tensor([1.0, -1.0] * 25)
    base = torch.full((50,), 2.0)
    assert first_as_good([base, base - 0.5 + 0.5 * noise], 1) == 1
    assert first_as_good([base, base - 0.05 + noise], 1) == 0
    assert first_as_good([base, base - 0.05 + noise], 0) == 1
    assert first_as_good([base, base - 0.5, base - 0.51 + noise], 1) == 1


@given(st.lists(st.lists(st.floats(0, 10), min_size=5, max_size=5), min_size=1, max_size=4), st.floats(0, 3))
def test_what_is_chosen_is_never_worse_than_the_base(values, errors):
    found = [torch.tensor(one, dtype=torch.double) for one in values]
    assert float(found[first_as_good(found, errors)].mean()) <= float(found[0].mean()) + 1e-9
