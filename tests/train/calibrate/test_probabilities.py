"""Probabilities of levels, of right quadrants and of mechanisms: distorted ones are mended, few labels move little."""

import numpy as np
import pytest
import torch

from plumbline.core.strain import LEVEL_EDGES_PERMILLE, MECHANISMS, category
from plumbline.model.diagnosis import KINDS
from plumbline.train.calibrate.conformal import RawAnswers
from plumbline.train.calibrate.probabilities import set_probabilities
from tests.model.made import raw_answer, small_model

EDGES = np.array([0.0, *LEVEL_EDGES_PERMILLE, 8.0])
OF_LEVEL = torch.from_numpy(category(EDGES[:-1]))
SET = ("quadrant_scale", "accepted_scale", "accepted_shift", "level_scale", "level_shift", "mechanism_scale")


@pytest.fixture
def model():
    return small_model()


def drawn(logits, generator):
    return torch.multinomial(logits.softmax(-1), 1, generator=generator)[:, 0]


def honest(model, count, seed=0):
    """Buildings that are as the raw answers say, with these probabilities."""
    generator = torch.Generator().manual_seed(seed)
    levels, mechanisms = (1.5 * torch.randn(count, width, generator=generator) for width in (16, len(MECHANISMS)))
    levels[:, 0] += 1.5  # most buildings are sound
    accepted = 2 * torch.randn(count, 4, generator=generator) - 1
    level = drawn(levels, generator).numpy()
    severity = (EDGES[level] + EDGES[level + 1]) / 2
    sound = torch.from_numpy(severity < 0.5)
    right = torch.rand(count, 4, generator=generator) < accepted.sigmoid()
    said = raw_answer(accepted_B4=accepted, levels_BK=levels, mechanism_BM=mechanisms)
    return RawAnswers(
        logits_B4=said.logits_B4,
        severity_B3=said.severity_B3,
        quadrant_B=torch.where(sound, -1, 0),
        standard_B=model.standard_severity(torch.from_numpy(severity).float()),
        kind_BK=torch.zeros(count, 1),
        accepted_logits_B4=said.accepted_B4,
        levels_BK=said.levels_BK,
        mechanism_logits_BM=said.mechanism_BM,
        accepted_B4=right & ~sound[:, None],
        mechanism_B=torch.where(sound, -1, drawn(mechanisms, generator)),
    )


SHIFT = torch.tensor([0.6, 0.0, -0.4, 0.3, -0.5])


def distorted(raw):
    """What a network says that is too sure of mechanisms, not sure enough of the rest, and leans to some categories."""
    return raw._replace(
        levels_BK=(raw.levels_BK - SHIFT[OF_LEVEL]) / 1.6,
        accepted_logits_B4=(raw.accepted_logits_B4 + 0.7) / 1.5,
        mechanism_logits_BM=2 * raw.mechanism_logits_BM,
    )


def test_a_known_distortion_is_mended(model):
    set_probabilities(model, distorted(honest(model, 20_000)))
    for kind in range(KINDS):
        assert model.get_buffer("level_scale")[kind].item() == pytest.approx(1.6, rel=0.05)
        shift = model.get_buffer("level_shift")[kind]
        torch.testing.assert_close(shift - shift.mean(), SHIFT - SHIFT.mean(), atol=0.1, rtol=0)
        assert model.get_buffer("accepted_scale")[kind].item() == pytest.approx(1.5, rel=0.05)
        assert model.get_buffer("accepted_shift")[kind].item() == pytest.approx(-0.7, abs=0.07)
    assert model.get_buffer("mechanism_scale").item() == pytest.approx(0.5, rel=0.05)


def test_each_kind_of_building_has_its_own(model):
    """Surer than they say: buildings of the second kind alone. Of the third there are none: it is as all are."""
    first, second = honest(model, 10_000), honest(model, 10_000, seed=1)
    second = second._replace(accepted_logits_B4=second.accepted_logits_B4 / 1.5)
    both = RawAnswers(*(torch.cat(parts) for parts in zip(first, second, strict=True)))
    kind = torch.nn.functional.one_hot(torch.arange(2).repeat_interleave(10_000), KINDS).float()
    set_probabilities(model, both._replace(kind_BK=kind))
    scale = model.get_buffer("accepted_scale")
    assert scale[:2].tolist() == pytest.approx([1.0, 1.5], rel=0.06)
    assert 1.05 < scale[2] < 1.45


def test_what_is_said_of_others_is_then_as_often_true(model):
    set_probabilities(model, distorted(honest(model, 20_000)))
    other = honest(model, 20_000, seed=1)
    kind = torch.nn.functional.one_hot(torch.zeros(20_000, dtype=torch.long), KINDS).float()
    levels = model.level_logits(distorted(other).levels_BK, kind).softmax(-1)
    said = levels @ torch.nn.functional.one_hot(OF_LEVEL, 5).float()
    true = torch.from_numpy(category(model.permille(other.standard_B).numpy()))
    for number in range(5):
        order = said[:, number].argsort()
        for part in order.chunk(5):  # from least to most probable
            share = (true[part] == number).double().mean().item()
            assert said[part, number].mean().item() == pytest.approx(share, abs=0.03)


def test_few_labels_move_little(model):
    """Of ten buildings the prior, half a unit in each logarithm and shift, is worth as much as all of them."""
    for seed in range(10):
        set_probabilities(model, honest(model, 10, seed))
        for name in SET:
            value = model.get_buffer(name)
            moved = value.log() if name.endswith("scale") else value
            assert moved.abs().max() < 0.8, name


def test_nothing_is_told_of_damage_where_there_is_none(model):
    raw = honest(model, 300)
    sound = (raw.quadrant_B < 0).nonzero()[:, 0]
    before = {name: model.get_buffer(name).clone() for name in SET}
    set_probabilities(model, RawAnswers(*(part[sound] for part in raw)))
    for name in ("accepted_scale", "accepted_shift", "mechanism_scale"):
        assert torch.equal(model.get_buffer(name), before[name])


def test_a_mechanism_that_is_not_known_does_not_count(model):
    raw = honest(model, 3000)
    set_probabilities(model, raw)
    wanted = model.get_buffer("mechanism_scale").item()
    twice = RawAnswers(*(torch.cat([part, part]) for part in raw))
    unknown = torch.cat([raw.mechanism_B, torch.full((3000,), -1)])
    set_probabilities(model, twice._replace(mechanism_B=unknown))
    assert model.get_buffer("mechanism_scale").item() == pytest.approx(wanted, rel=1e-4)


def test_the_shares_of_the_categories_are_counted_and_none_is_nothing(model):
    """Each category counts as one building more than there is: Bayes' rule divides by its share."""
    raw = honest(model, 200)
    true = category(model.permille(raw.standard_B).numpy())
    set_probabilities(model, raw)
    count = np.bincount(true, minlength=5)
    np.testing.assert_allclose(model.get_buffer("category_share"), (count + 1) / 205, rtol=1e-5)
    sound = torch.from_numpy(true == 0).nonzero()[:, 0]
    set_probabilities(model, RawAnswers(*(part[sound] for part in raw)))
    share = model.get_buffer("category_share")
    assert share[1:].min() > 0
    assert share.sum().item() == pytest.approx(1)
