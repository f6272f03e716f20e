from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from plumbline.model.diagnosis import Diagnosis
from plumbline.model.interval import INTERVAL_SHARE, deviation, narrowness
from plumbline.model.network import RawAnswer
from plumbline.prepare.features import GEOMETRY, names
from plumbline.prepare.sequences import concatenate
from plumbline.strain import category
from plumbline.train.calibrate import (
    CATEGORIES,
    CATEGORY_SHARES,
    MIN_CATEGORY,
    MIN_FOR_STEPS,
    calibrate,
    category_quantiles,
    quantile_regression,
    raw_answers,
    set_scales,
)
from plumbline.train.doubts import LEAST_BUILDINGS
from tests.model.made import small_model
from tests.train.made import make_sequences
from tests.train.test_fit import said

__all__ = ["said"]

HALF_WIDTH = 1.0


class Echo(nn.Module):
    """Answers with what the geometry says: four logits, then the middle of the interval."""

    def forward(self, distance, slope, geometry, mask):
        middle = geometry[:, 4:5]
        return RawAnswer(geometry[:, :4], torch.cat([middle - HALF_WIDTH, middle, middle + HALF_WIDTH], dim=1))


def echo_model() -> Diagnosis:
    """Raw geometry comes through `asinh`; severity is standardised to have room above 0 permille."""
    model = small_model()
    for name, value in (("geometry_mean", 0.0), ("geometry_sd", 1.0), ("severity_mean", 0.0), ("severity_sd", 0.3)):
        model.get_buffer(name).fill_(value)
    model.network = Echo()
    return model


def echoed(model, rng, count, temperature=1.0, spread=1.0):
    """Buildings whose quadrant follows the logits over `temperature`, and severity the middle, +- `spread`."""
    sequences = make_sequences(count, shortest=5, longest=6)
    logits, middle = rng.normal(0, 3, (count, 4)), rng.normal(0, 1, count)
    sequences.geometry[:, :4], sequences.geometry[:, 4] = np.sinh(logits), np.sinh(middle)
    probability = torch.tensor(logits / temperature).softmax(-1)
    quadrant = torch.multinomial(probability, 1, generator=torch.Generator().manual_seed(int(rng.integers(1 << 30))))
    standard = torch.tensor(middle + rng.normal(0, spread, count), dtype=torch.float32)
    return replace(sequences, quadrant=quadrant[:, 0].numpy(), severity=model.permille(standard).numpy())


def coverage(model, sequences):
    inputs = [torch.zeros(len(sequences), 1, 1), torch.zeros(len(sequences), 1, 1),
              torch.tensor(sequences.geometry), torch.ones(len(sequences), 1, dtype=torch.bool)]  # fmt: skip
    model.standardise, whole = (lambda name, values: values.asinh()), model.standardise
    answer = model(*inputs)
    model.standardise = whole
    truth = torch.tensor(sequences.severity)
    return ((answer.severity_low - 1e-5 <= truth) & (truth <= answer.severity_high + 1e-5)).float().mean().item()


@pytest.mark.parametrize("temperature", [0.5, 1.0, 3.0])
def test_a_known_temperature_is_recovered(temperature):
    model = echo_model()
    calibrate(model, echoed(model, np.random.default_rng(0), 3000, temperature))
    assert model.get_buffer("temperature").item() == pytest.approx(temperature, rel=0.1)


def test_undefined_quadrants_do_not_count():
    model = echo_model()
    sequences = echoed(model, np.random.default_rng(1), 2000, 2.0)
    calibrate(model, sequences)
    alone = model.get_buffer("temperature").item()
    noise = replace(echoed(model, np.random.default_rng(2), 2000, 0.1), quadrant=np.full(2000, -1))
    calibrate(model, concatenate([sequences, noise]))
    assert model.get_buffer("temperature").item() == pytest.approx(alone, rel=1e-6)
    calibrate(model, noise)
    assert model.get_buffer("temperature").item() == 1.0


@pytest.mark.parametrize("spread", [0.2, 1.0, 3.0])
def test_the_interval_holds_its_share_of_buildings_never_seen(spread):
    """Conformal guarantee on exchangeable data, whether the raw interval was too wide or too narrow."""
    model, rng = echo_model(), np.random.default_rng(3)
    calibrate(model, echoed(model, rng, 8000, spread=spread))
    assert (model.get_buffer("interval_scale").mean() < 1) == (spread < 0.5)
    again = echoed(model, rng, 8000, spread=spread)
    assert coverage(model, again) >= INTERVAL_SHARE - 0.02
    for number in range(5):
        own = again.take(np.flatnonzero(category(again.severity) == number))
        if len(own) > 400:
            assert coverage(model, own) >= INTERVAL_SHARE - 0.04


def test_few_buildings_cover_too_on_average():
    model, rng = echo_model(), np.random.default_rng(4)
    found = []
    for _ in range(60):
        calibrate(model, echoed(model, rng, 19, spread=1.0))
        found.append(coverage(model, echoed(model, rng, 300, spread=1.0)))
    assert np.mean(found) == pytest.approx(18 / 20, abs=0.03)


@pytest.mark.parametrize(
    ("count", "wanted"),
    [
        (3, ["of fewer than 9 the interval is their largest error, which holds 75 % of others and not 90. Give more"]),
        (19, ["what the interval holds of others is 90 % give or take 7. Give more"]),
        (200, []),
    ],
)
def test_few_buildings_are_said(count, wanted, said):
    calibrate(echo_model(), echoed(echo_model(), np.random.default_rng(6), count))
    found = [line for line in said if "buildings to calibrate on:" in line]
    wanted = [f"WARNING {count} buildings to calibrate on: {line}" for line in wanted]
    assert [line.removesuffix(" labelled buildings, or a larger prepare.split.calibrate.") for line in found] == wanted


def test_the_least_number_of_buildings_is_the_first_whose_rank_there_is():
    for count in range(1, 30):
        assert (int(np.ceil((count + 1) * INTERVAL_SHARE)) <= count) == (count >= LEAST_BUILDINGS)


def test_a_temperature_that_could_not_be_fitted_is_said(said):
    model, sequences = echo_model(), echoed(echo_model(), np.random.default_rng(6), 200)
    calibrate(model, sequences)
    assert not [line for line in said if line.startswith("WARNING")]
    calibrate(model, replace(sequences, quadrant=np.full(200, -1)))
    assert "none of the buildings to calibrate on has a quadrant" in said[-1]
    right = np.arcsinh(sequences.geometry[:, :4]).argmax(1)
    calibrate(model, replace(sequences, quadrant=right))
    assert "is at the end, 0.10, for 200 buildings with a quadrant: their answers are all right" in said[-1]
    calibrate(model, replace(sequences, quadrant=(right + 1) % 4))
    assert "is at the end, 10.00, for 200 buildings with a quadrant: their answers are no better than" in said[-1]


def test_calibrating_again_changes_nothing():
    model = echo_model()
    sequences = echoed(model, np.random.default_rng(5), 500, 2.0, 2.0)
    calibrate(model, sequences)
    first = {name: value.clone() for name, value in model.named_buffers()}
    calibrate(model, sequences)
    assert all(torch.equal(value, first[name]) for name, value in model.named_buffers())
    assert not model.training


def of_kind(sequences, points, area):
    """The same buildings, told to have so many scatterers on so many m2."""
    sequences.geometry[:, names(GEOMETRY).index("log_points")] = np.log(points)
    sequences.geometry[:, names(GEOMETRY).index("log_area")] = np.log(area)
    return sequences


class Flat(Echo):
    """Says the same of all, so that the area is free to be anything."""

    def forward(self, distance, slope, geometry, mask):
        middle = geometry[:, :1]
        return RawAnswer(geometry[:, :4], torch.cat([middle - HALF_WIDTH, middle, middle + HALF_WIDTH], dim=1))


def test_every_kind_of_building_is_held_though_the_network_is_surer_of_one_than_it_should_be():
    model, rng = echo_model(), np.random.default_rng(7)
    model.network = Flat()

    def drawn():
        parts = []
        for points, area, spread in ((6, 80.0, 0.6), (30, 80.0, 1.2), (80, 400.0, 0.3)):
            part = echoed(model, rng, 3000, spread=spread)
            middle = np.arcsinh(part.geometry[:, 0])
            standard = torch.tensor(middle + rng.normal(0, spread, 3000), dtype=torch.float32)
            parts.append(of_kind(replace(part, severity=model.permille(standard).numpy()), points, area))
        return parts

    calibrate(model, concatenate(drawn()))
    steps = model.get_buffer("interval_steps")
    # No building has 10 to 20 scatterers, nor 100 to 250 or 600 m2: only other bounds can be steps.
    assert not steps[[0, 3, 5]].any()
    assert steps[1] > 0
    found = [coverage(model, part) for part in drawn()]
    assert min(found) > 0.86
    assert max(found) < 0.97


def test_few_buildings_have_no_steps():
    model, rng = echo_model(), np.random.default_rng(8)
    model.network = Flat()
    half = (MIN_FOR_STEPS - 1) // 2
    parts = [of_kind(echoed(model, rng, half, spread=s), points, 80.0) for s, points in ((0.3, 5), (2.0, 60))]
    calibrate(model, concatenate(parts))
    assert not model.get_buffer("interval_steps").any()
    calibrate(model, concatenate([*parts, *parts]))
    assert model.get_buffer("interval_steps").any()


class Unsure(Flat):
    """Says how unsure it is in the sixth column: half the length of its interval."""

    def forward(self, distance, slope, geometry, mask):
        middle, half = geometry[:, :1], geometry[:, 5:6]
        return RawAnswer(geometry[:, :4], torch.cat([middle - half, middle, middle + half], dim=1))


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
    model, rng = echo_model(), np.random.default_rng(10)
    model.network = Unsure()
    calibrate(model, concatenate([unsure(model, rng, *kind, 4000) for kind in (NARROW, WIDE)]))
    length = model.get_buffer("interval_length")
    assert length[:-1].max() > 0.5
    assert length[-1] == 0
    again = [unsure(model, rng, *kind, 4000) for kind in (NARROW, WIDE)]
    found = [coverage(model, part) for part in again]
    length.zero_()
    set_scales(model, raw_answers(model, concatenate(again)))
    without = [coverage(model, part) for part in again]
    assert without[0] < found[0] - 0.03
    assert min(found) > INTERVAL_SHARE - 0.03


def test_intervals_that_differ_by_nothing_have_no_length():
    model, rng = echo_model(), np.random.default_rng(11)
    model.network = Unsure()
    calibrate(model, unsure(model, rng, *NARROW, 2000))
    assert not model.get_buffer("interval_length").any()
    calibrate(model, concatenate([unsure(model, rng, *kind, (MIN_FOR_STEPS - 1) // 2) for kind in (NARROW, WIDE)]))
    assert not model.get_buffer("interval_length").any()


@pytest.mark.parametrize("length", [0.0, 0.7, -0.4])
def test_each_category_holds_its_rank_whatever_its_length(length):
    """Split conformal prediction: of n buildings the scale lets `ceil(share (n + 1))` in, be they few or many."""
    model, rng = echo_model(), np.random.default_rng(12)
    model.network = Unsure()
    model.get_buffer("severity_sd").fill_(1.0)  # so that all categories are there
    raw = raw_answers(model, concatenate([unsure(model, rng, *kind, 1000) for kind in (NARROW, WIDE)]))
    model.get_buffer("interval_steps").normal_(std=0.1)
    model.get_buffer("interval_length").copy_(length * torch.arange(CATEGORIES))
    set_scales(model, raw)
    number = torch.tensor(category(model.permille(raw.standard_B).numpy()))
    scale = model.interval_scale_of(raw.passed_BK, narrowness(raw.severity_B3))
    held = deviation(raw.severity_B3, raw.standard_B) <= scale[torch.arange(len(scale)), number] + 1e-5
    inside = [held[number == own] for own in range(CATEGORIES)]
    assert min(len(part) for part in inside) >= MIN_CATEGORY
    ranks = [[int(np.ceil(share * (len(part) + 1))) for part in inside] for share in CATEGORY_SHARES]
    assert [int(part.sum()) for part in inside] in ranks


def test_categories_are_asked_for_less_where_together_they_hold_more():
    """Wide intervals reach over each other's categories; narrow ones do not."""
    model, rng = echo_model(), np.random.default_rng(13)
    model.network = Unsure()
    found = {}
    for name, kind in (("narrow", (0.02, 0.03)), ("wide", WIDE)):
        model.get_buffer("severity_sd").fill_(1.0)
        raw = raw_answers(model, unsure(model, rng, *kind, 4000))
        set_scales(model, raw)
        low, high = model.interval(raw.severity_B3, raw.passed_BK)
        inside = ((low[:, 0] <= raw.standard_B) & (raw.standard_B <= high[:, 0])).double()
        number = torch.tensor(category(model.permille(raw.standard_B).numpy()))
        found[name] = inside.mean(), min(inside[number == own].mean() for own in range(CATEGORIES))
    assert found["narrow"][0] >= INTERVAL_SHARE
    assert found["narrow"][1] >= INTERVAL_SHARE - 0.01
    assert found["wide"][0] >= INTERVAL_SHARE
    assert found["wide"][1] >= CATEGORY_SHARES[0] - 0.001


@pytest.mark.parametrize("count", [40, 60, 90, 200])
@pytest.mark.parametrize("seed", range(4))
def test_all_together_hold_the_rank_of_split_conformal_prediction(count, seed):
    """`ceil(share (n + 1))` of n, not a share of n: of few buildings that is one more."""
    model, rng = echo_model(), np.random.default_rng(seed)
    model.network = Unsure()
    model.get_buffer("severity_sd").fill_(1.0)
    raw = raw_answers(model, unsure(model, rng, *WIDE, count))
    set_scales(model, raw)
    low, high = model.interval(raw.severity_B3, raw.passed_BK)
    near = 1e-5  # those that a bound was set by lie on it, to rounding
    held = int(((low[:, 0] - near <= raw.standard_B) & (raw.standard_B <= high[:, 0] + near)).sum())
    assert held >= np.ceil(INTERVAL_SHARE * (count + 1))


def test_a_category_with_few_buildings_takes_what_all_would_need_of_it():
    generator = torch.Generator().manual_seed(0)
    excess, number = torch.randn(400, CATEGORIES, generator=generator), torch.arange(400) % 4
    number[: MIN_CATEGORY - 1] = 4
    found = category_quantiles(excess, number, INTERVAL_SHARE)
    assert found[4] == excess[:, 4].sort().values[int(np.ceil(INTERVAL_SHARE * 401)) - 1]
    own = excess[number == 2, 2].sort().values
    assert found[2] == own[int(np.ceil(INTERVAL_SHARE * (len(own) + 1))) - 1]


def test_quantiles_of_groups_are_what_the_regression_finds():
    """On indicators alone, quantile regression gives each group's own quantile."""
    rng = np.random.default_rng(9)
    group, values = rng.integers(0, 3, 999), rng.normal(0, 1, 999)
    values += np.array([0.0, 5.0, -3.0])[group]
    found = quantile_regression(np.eye(3)[group], values, 0.9)
    for number in range(3):
        assert np.mean(values[group == number] <= found[number] + 1e-9) == pytest.approx(0.9, abs=0.005)
