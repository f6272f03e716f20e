"""The scales of the severity interval: what they hold, of whom, and on which side."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from plumbline.core.strain import INTERVAL_SHARE, category
from plumbline.model.diagnosis import KINDS, NOTHING
from plumbline.prepare.features.definition import GEOMETRY, names
from plumbline.prepare.features.sequences import concatenate
from plumbline.train.calibrate.conformal import (
    CATEGORIES,
    MIN_CATEGORY,
    MIN_FOR_LENGTHS,
    misses,
    move_scales,
    needed_halves,
    set_or_move,
    set_scales,
)
from plumbline.train.calibrate.probabilities import calibrate, raw_answers
from tests.train.calibrate.test_temperature import Echo, coverage, echo_model, echoed
from tests.train.made import make_sequences


def of_kind(sequences, points, area):
    """The same buildings, told to have so many scatterers on so many m2."""
    sequences.geometry[:, names(GEOMETRY).index("log_points")] = np.log(points)
    sequences.geometry[:, names(GEOMETRY).index("log_area")] = np.log(area)
    return sequences


def test_every_kind_of_building_is_held_though_the_network_is_surer_of_one_than_it_should_be():
    model, rng = echo_model(), np.random.default_rng(7)
    model.network = Echo(middle=0)

    def drawn():
        parts = []
        for points, area, spread in ((6, 80.0, 0.6), (30, 80.0, 1.2), (15, 400.0, 0.3)):
            part = echoed(model, rng, 1500, spread=spread)
            middle = np.arcsinh(part.geometry[:, 0])
            standard = torch.tensor(middle + rng.normal(0, spread, 1500), dtype=torch.float32)
            parts.append(of_kind(replace(part, severity=model.permille(standard).numpy()), points, area))
        return parts

    calibrate(model, concatenate(drawn()))
    found = [coverage(model, part) for part in drawn()]
    assert min(found) > 0.86
    assert max(found) < 0.97


def unsure_model():
    """A model that says how unsure it is in the sixth column: half the length of its interval."""
    model = echo_model()
    model.network = Echo(middle=0, half=5)
    return model


def unsure(model, rng, half, spread, count):
    """Buildings of one kind with an interval of so many on each side, whose severities spread otherwise."""
    part = of_kind(make_sequences(count, shortest=5, longest=6), 30, 80.0)
    middle = rng.normal(0, 1, count)
    part.geometry[:, 0], part.geometry[:, 5] = np.sinh(middle), np.sinh(half)
    standard = torch.tensor(middle + rng.normal(0, spread, count), dtype=torch.float32)
    return replace(part, severity=model.permille(standard).numpy())


NARROW, WIDE = (0.4, 0.7), (1.5, 1.0)
"""Half of the interval, and the spread of the truth: of the one 2.9 halves are needed, of the other 1.1."""


def test_narrow_intervals_are_held_as_wide_ones_are():
    model, rng = unsure_model(), np.random.default_rng(10)
    calibrate(model, concatenate([unsure(model, rng, *kind, 2500) for kind in (NARROW, WIDE)]))
    length = model.get_buffer("interval_length")
    assert length[:-1].max() > 0.5
    assert length[-1] == 0
    again = [unsure(model, rng, *kind, 2500) for kind in (NARROW, WIDE)]
    found = [coverage(model, part) for part in again]
    length.zero_()
    set_scales(model, raw_answers(model, concatenate(again)))
    without = [coverage(model, part) for part in again]
    assert without[0] < found[0] - 0.03
    assert min(found) > INTERVAL_SHARE - 0.03


def test_intervals_that_differ_by_nothing_have_no_length():
    model, rng = unsure_model(), np.random.default_rng(11)
    calibrate(model, unsure(model, rng, *NARROW, 2000))
    assert not model.get_buffer("interval_length").any()
    calibrate(model, concatenate([unsure(model, rng, *kind, (MIN_FOR_LENGTHS - 1) // 2) for kind in (NARROW, WIDE)]))
    assert not model.get_buffer("interval_length").any()


def answers(model, rng, kind, count, points=30):
    """What the model says of buildings of every category."""
    model.network = Echo(middle=0, half=5)
    model.get_buffer("severity_sd").fill_(1.0)
    model.get_buffer("interval_length").zero_()
    part = unsure(model, rng, *kind, count)
    return raw_answers(model, of_kind(part, points, 80.0))


def inside(model, raw):
    """(B,) who is held, to rounding, and their categories."""
    low, high = model.interval(raw.severity_B3, raw.kind_BK)
    near = 1e-4
    held = (low[:, 0] - near <= raw.standard_B) & (raw.standard_B <= high[:, 0] + near)
    return held, torch.tensor(category(model.permille(raw.standard_B).numpy()))


@pytest.mark.parametrize("length", [0.0, 0.7, -0.4])
@pytest.mark.parametrize("kind", [NARROW, WIDE], ids=["narrow", "wide"])
def test_each_category_holds_its_rank_whatever_its_length(length, kind):
    """Split conformal prediction: of n buildings `ceil(share (n + 1))` at least are inside.

    No more than that of the last, which no other reaches over from above.
    """
    model, rng = echo_model(), np.random.default_rng(12)
    raw = answers(model, rng, kind, 2000)
    model.get_buffer("interval_length").copy_(length * torch.arange(CATEGORIES))
    set_scales(model, raw)
    held, number = inside(model, raw)
    for own in range(CATEGORIES):
        part = held[number == own]
        assert len(part) >= MIN_CATEGORY
        assert int(part.sum()) >= np.ceil(INTERVAL_SHARE * (len(part) + 1)) - 1  # one may lie on its bound
    last = held[number == CATEGORIES - 1]
    assert len(last) - int(last.sum()) == pytest.approx(misses(len(last), INTERVAL_SHARE), abs=1)


def test_categories_in_between_are_not_held_more_where_the_points_say_little():
    """Those that reach over them are asked first. The worst are left out above, where it shortens intervals."""
    model, rng = echo_model(), np.random.default_rng(13)
    set_scales(model, answers(model, rng, WIDE, 6000))
    again = answers(model, rng, WIDE, 6000)
    held, number = inside(model, again)
    for own in range(CATEGORIES):
        assert held[number == own].double().mean() == pytest.approx(INTERVAL_SHARE, abs=0.04)
    low, high = model.interval(again.severity_B3, again.kind_BK)
    below, above = low[:, 0] > again.standard_B, high[:, 0] < again.standard_B
    assert above[number == 4].sum() > 2 * below[number == 4].sum()


def test_sound_buildings_are_missed_only_where_damage_is_said_to_be_sure():
    model, rng = echo_model(), np.random.default_rng(14)
    raw = answers(model, rng, WIDE, 4000)
    set_scales(model, raw)
    held, number = inside(model, raw)
    low, high = model.interval(raw.severity_B3, raw.kind_BK)
    lost = ~held & (number == 0) & (high[:, 0] >= raw.standard_B)
    assert lost.sum() > 20
    assert (low[lost, 0] >= model.category_edges()[0]).all()
    assert torch.isneginf(low[held & (number == 0), 0]).all()


@pytest.mark.parametrize("count", [9, 19, 40, 60, 90, 200])
@pytest.mark.parametrize("seed", range(4))
def test_all_together_hold_the_rank_of_split_conformal_prediction(count, seed):
    """`ceil(share (n + 1))` of n, not a share of n: of few buildings that is one more."""
    model, rng = echo_model(), np.random.default_rng(seed)
    raw = answers(model, rng, WIDE, count)
    set_scales(model, raw)
    assert int(inside(model, raw)[0].sum()) >= np.ceil(INTERVAL_SHARE * (count + 1) - 1e-9)


def test_a_kind_with_few_buildings_of_a_category_takes_what_all_kinds_would_need():
    model, rng = echo_model(), np.random.default_rng(15)
    many, few = answers(model, rng, WIDE, 3000), answers(model, rng, (1.5, 0.1), 60, points=5)
    set_scales(model, type(many)(*(torch.cat(both) for both in zip(many, few, strict=True))))
    above = model.get_buffer("interval_above")
    assert above[0, 4] == pytest.approx(above[2, 4].item(), rel=0.05)  # those 60 need next to nothing
    assert torch.equal(above[0], above[1])  # of which there is no building


def test_few_buildings_have_one_scale_for_all_categories_and_kinds():
    """What all need, one for another: no category has enough of its own."""
    model, rng = echo_model(), np.random.default_rng(16)
    set_scales(model, answers(model, rng, WIDE, MIN_CATEGORY))
    scale = model.get_buffer("interval_above")[0, 0]
    for side in ("below", "above"):
        assert torch.equal(model.get_buffer(f"interval_{side}"), scale.expand(KINDS, CATEGORIES))


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
