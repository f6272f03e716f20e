"""The interval of a base moved as a whole by few labels."""

import numpy as np
import pytest
import torch

from plumbline.core.strain import INTERVAL_SHARE
from plumbline.model.diagnosis import NOTHING
from plumbline.train.calibrate.conformal import (
    CATEGORIES,
    MIN_CATEGORY,
    MOST_HALVES,
    misses,
    move_scales,
    needed_halves,
    set_or_move,
    set_scales,
)
from tests.train.calibrate.test_conformal import NARROW, WIDE, answers, inside
from tests.train.calibrate.test_temperature import echo_model

BUFFERS = ("interval_below", "interval_above")


def based(rng, kind=WIDE):
    """A model whose interval was set on thousands of buildings of a kind."""
    model = echo_model()
    set_scales(model, answers(model, rng, kind, 4000))
    return model, {name: model.get_buffer(name).clone() for name in BUFFERS}


def differences(buffers):
    return torch.cat([buffers[name].flatten() for name in BUFFERS]).diff()


@pytest.mark.parametrize("count", [9, 19, 40, 50, 200])
@pytest.mark.parametrize("kind", [NARROW, WIDE], ids=["narrow", "wide"])
def test_as_many_are_left_out_as_the_rank_of_split_conformal_prediction_says(count, kind):
    rng = np.random.default_rng(count)
    model, _ = based(rng)
    raw = answers(model, rng, kind, count)
    move_scales(model, raw)
    left = count - int(inside(model, raw)[0].sum())
    # A category that is let in whole takes several in at once.
    assert left <= misses(count, INTERVAL_SHARE)
    assert left >= misses(count, INTERVAL_SHARE) - 0.1 * count


def test_how_categories_and_sides_differ_stays():
    rng = np.random.default_rng(3)
    model, before = based(rng)
    halves = move_scales(model, answers(model, rng, NARROW, 50))
    assert halves > 0.1
    after = {name: model.get_buffer(name) for name in BUFFERS}
    torch.testing.assert_close(differences(after), differences(before), atol=1e-3, rtol=0)
    torch.testing.assert_close(after["interval_above"], before["interval_above"] + halves)


def test_what_a_building_needs_is_how_far_the_truth_is_beyond_its_scale():
    """In the middle of a category that no other reaches over: its deviation in halves, less the scale."""
    rng = np.random.default_rng(4)
    model, _ = based(rng)
    for name in BUFFERS:  # only category 2, by one half
        model.get_buffer(name).copy_(torch.tensor([NOTHING, NOTHING, 1.0, NOTHING, NOTHING]).expand(3, CATEGORIES))
    low, high = model.category_edges()[1:3]
    middle = float(low + high) / 2
    half = float(high - low) / 8
    raw = answers(model, rng, WIDE, 3)
    severity = torch.tensor([[middle - half, middle, middle + half]]).expand(3, 3)
    true = middle + half * torch.tensor([1.5, -3.0, 0.25])
    found = needed_halves(model, raw._replace(severity_B3=severity, standard_B=true))
    torch.testing.assert_close(found, torch.tensor([0.5, 2.0, -0.75]), atol=1e-3, rtol=0)


def test_what_nothing_reaches_needs_the_most():
    rng = np.random.default_rng(5)
    model, _ = based(rng)
    for name in BUFFERS:
        model.get_buffer(name)[:, 4] = NOTHING  # so that the worst are let in by nothing
    raw = answers(model, rng, WIDE, 2)
    edge = float(model.category_edges()[-1])
    severity = torch.tensor([[edge - 3.0, edge - 2.0, edge - 1.0]]).expand(2, 3)
    found = needed_halves(model, raw._replace(severity_B3=severity, standard_B=torch.tensor([edge + 1.0, edge - 2.0])))
    assert found[0] == MOST_HALVES
    assert found[1] < 0


def test_fifty_labels_like_the_base_s_own_leave_it_nearly_as_it_is():
    """Scales set anew by fifty hold much more, and say of far fewer damaged that they are."""
    held, flagged, anew = [], [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        model, before = based(rng)
        labels, others = answers(model, rng, WIDE, 50), answers(model, rng, WIDE, 2000)
        edge = model.category_edges()[0]

        def sure(model=model, others=others, edge=edge):
            return int((model.interval(others.severity_B3, others.kind_BK)[0][:, 0] >= edge).sum())

        first = sure()
        move_scales(model, labels)
        held.append(inside(model, others)[0].double().mean())
        flagged.append(sure() / first)
        for name in BUFFERS:
            model.get_buffer(name).copy_(before[name])
        set_scales(model, labels)
        anew.append(sure() / first)
    assert np.mean(held) == pytest.approx(INTERVAL_SHARE, abs=0.025)
    assert np.mean(flagged) == pytest.approx(1, abs=0.15)
    assert np.mean(anew) < np.mean(flagged) - 0.1


def test_where_every_category_has_labels_enough_each_is_set_on_its_own():
    rng = np.random.default_rng(6)
    model, before = based(rng)
    raw = answers(model, rng, WIDE, 3000)
    set_or_move(model, raw)
    assert int(inside(model, raw)[1].bincount(minlength=CATEGORIES).min()) >= MIN_CATEGORY
    alone = echo_model()
    alone.network = model.network
    for name in ("severity_sd", "interval_length"):
        alone.get_buffer(name).copy_(model.get_buffer(name))
    set_scales(alone, raw)
    assert all(torch.equal(model.get_buffer(name), alone.get_buffer(name)) for name in BUFFERS)
    assert not torch.equal(model.get_buffer("interval_above"), before["interval_above"])
