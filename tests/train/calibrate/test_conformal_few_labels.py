"""The interval of a base moved as a whole by few labels."""

import numpy as np
import pytest
import torch

from plumbline.core.strain import INTERVAL_SHARE
from plumbline.model.diagnosis import NOTHING
from plumbline.train.calibrate.conformal import (
    CATEGORIES,
    MIN_CATEGORY,
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
