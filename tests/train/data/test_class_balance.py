import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.strain import category
from plumbline.model.diagnosis import SEVERITY_FLOOR
from plumbline.model.losses import build_losses
from plumbline.params import Train
from plumbline.train.data.balance import building_weights, draw_by_weight
from plumbline.train.data.batches import SimilarLengths, loader
from tests.model.made import WIDTHS, raw_answer
from tests.train.made import make_batch, make_sequences


def section(**changed) -> Train:
    return Train(epochs=1, patience=1, learning_rate=0.1, **changed)


def labels(count=400, seed=0):
    sequences = make_sequences(count, seed)
    return sequences.severity, sequences.quadrant


def classes(by, severity, quadrant):
    return {"category": category(severity), "quadrant": quadrant, "both": 10 * category(severity) + quadrant}[by]


@given(st.integers(0, 99), st.sampled_from(["category", "quadrant", "both"]))
def test_all_classes_have_the_same_sum_of_weights(seed, by):
    severity, quadrant = labels(seed=seed)
    weight = building_weights(severity, quadrant, section(balance_by=by))
    code = classes(by, severity, quadrant)
    for one in np.unique(code):
        assert weight[code == one].sum() == pytest.approx(len(weight) / len(np.unique(code)), rel=1e-5)
        assert np.ptp(weight[code == one]) == 0


def test_evenly_spread_severities_have_even_weights_up_to_the_ends():
    """One building in each bin: every smoothed density is that of its neighbours."""
    log_severity = np.log(0.1 + SEVERITY_FLOOR) + 0.05 * np.r_[0, np.arange(1, 70) + 0.5]
    severity = np.exp(log_severity) - SEVERITY_FLOOR
    weight = building_weights(severity, np.zeros(70, np.int64), section(balance_by="severity"))
    np.testing.assert_allclose(weight, 1, rtol=1e-6)


def test_one_lump_of_severities_smooths_as_a_normal_curve():
    """Far from the ends, the density beside a lump of n equal labels is n times the kernel: n exp(-d^2 / 2 s^2)."""
    edge, step, sd, lump = np.log(0.05 + SEVERITY_FLOOR), 0.05, 2.0, 1000
    bins = np.r_[0, np.full(lump, 40), 43, 80]
    severity = np.exp(edge + step * (bins + 0.5)) - SEVERITY_FLOOR
    severity[0] = 0.05
    weight = building_weights(severity, np.zeros(len(bins), np.int64), section(balance_by="severity"))
    near = lump * np.exp(-((3 / sd) ** 2) / 2) + 1
    here = lump + np.exp(-((3 / sd) ** 2) / 2)
    assert weight[-2] / weight[1] == pytest.approx(here / near, rel=1e-5)
    assert weight[0] > 100 * weight[1]


@given(st.lists(st.floats(0.01, 50), min_size=1, max_size=60), st.integers(0, 99))
def test_a_building_is_drawn_as_often_as_its_weight_says_rounded_down_or_up(weights, seed):
    weight = np.array(weights, np.float32)
    count = np.bincount(draw_by_weight(weight, np.random.default_rng(seed)), minlength=len(weight))
    assert count.sum() == len(weight)
    expected = len(weight) * weight.astype(float) / weight.sum(dtype=float)
    assert (np.abs(count - expected) < 1 + 1e-4).all()


@pytest.mark.parametrize("by", ["category", "quadrant", "both"])
def test_oversampled_epochs_hold_all_classes_alike(by):
    sequences = make_sequences(600)
    losses = section(balance="oversample", balance_by=by)
    sampler = loader(sequences, 32, 0, losses).sampler
    assert isinstance(sampler, SimilarLengths)
    code = classes(by, sequences.severity, sequences.quadrant)
    share = np.zeros(code.max() + 2)
    for epoch in range(10):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        index = np.concatenate(batches)
        assert len(index) == 600
        share += np.bincount(code[index] + 1, minlength=len(share)) / 6000
    found = share[np.unique(code) + 1]
    np.testing.assert_allclose(found, 1 / len(found), atol=0.02)


def answered(count, seed=0):
    """What is said of buildings, their labels, and their standardised severity."""
    generator = torch.Generator().manual_seed(seed)
    said = {name: torch.randn(count, width, generator=generator) for name, width in WIDTHS.items()}
    return raw_answer(**said), make_batch(count, seed), torch.randn(count, generator=generator)


def losses_of(answer, labels, standard, *weight):
    losses = build_losses(section())
    damaged, everywhere = (
        losses.over_damaged(answer, labels, *weight),
        losses.over_all(answer, labels, standard, *weight),
    )
    return damaged.item(), everywhere.item()


@given(st.lists(st.integers(1, 5), min_size=2, max_size=20), st.integers(0, 99))
def test_losses_with_weights_are_those_of_the_buildings_repeated(times, seed):
    answer, labels, standard = answered(len(times), seed)
    weight, repeat = torch.tensor(times, dtype=torch.float32), torch.tensor(times)
    repeated = (type(parts)(*(part.repeat_interleave(repeat, dim=0) for part in parts)) for parts in (answer, labels))
    wanted = losses_of(*repeated, standard.repeat_interleave(repeat))
    assert losses_of(answer, labels, standard, weight) == pytest.approx(wanted, rel=1e-5, abs=1e-6)
    assert losses_of(answer, labels, standard, 7 * weight) == pytest.approx(wanted, rel=1e-5, abs=1e-6)


def test_undefined_quadrants_stay_out():
    answer, labels, standard = answered(30)
    nowhere = labels._replace(quadrant_B=torch.full((30,), -1), accepted_B4=torch.zeros(30, 4, dtype=torch.bool))
    assert losses_of(answer, nowhere, standard, torch.ones(30))[0] == 0


@pytest.mark.parametrize("seed", [None, 3])
def test_the_loader_gives_each_building_its_weight(seed):
    sequences = make_sequences(80)
    wanted = building_weights(sequences.severity, sequences.quadrant, section(balance_by="both"))
    for balance, weighted in (("none", False), ("oversample", False), ("weights", True)):
        for batch in loader(sequences, 16, seed, section(balance=balance, balance_by="both")):
            for severity, weight in zip(batch.severity_B.numpy(), batch.weight_B.numpy(), strict=True):
                building = int(np.flatnonzero(sequences.severity == severity)[0])
                assert weight == (wanted[building] if weighted else 1)
