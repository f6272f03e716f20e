import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.strain import CATEGORY_BOUNDS_PERMILLE
from plumbline.model.diagnosis import (
    KINDS,
    MIN_WIDTH,
    NEAREST,
    NOTHING,
    deviations,
    distances,
    halves,
    kinds,
    narrowness,
    stretched,
)
from plumbline.prepare.features.definition import GEOMETRY, names
from tests.model.made import inputs, small_model

EDGES = torch.tensor([-0.5, 0.0, 0.5, 1.0])
SCALES = st.lists(st.one_of(st.floats(-3, 3), st.just(NOTHING)), min_size=5, max_size=5)


def drawn(seed, count=40):
    """Network's intervals of different lengths, and truths of all categories."""
    generator = torch.Generator().manual_seed(seed)
    middle, half = torch.randn(count, 1, generator=generator), torch.rand(count, 2, generator=generator) + 0.2
    severity = torch.cat([middle - half[:, :1], middle, middle + half[:, 1:]], dim=1)
    return severity, 2 * torch.randn(count, generator=generator)


def test_the_interval_is_that_of_the_network_scaled_and_lengthened():
    model, batch = small_model(), inputs([4, 9])
    with torch.inference_mode():
        model.get_buffer("severity_mean").fill_(1.0)  # far above category 0, which has no lower end of its own
        model.get_buffer("severity_sd").fill_(0.1)
        model.get_buffer("interval_below").fill_(1.5)
        model.get_buffer("interval_above").fill_(0.8)
        model.get_buffer("interval_length").fill_(0.7)
        severity = model.raw(*batch).severity_B3
        low, middle, high = severity.T
        longer = 0.7 * narrowness(severity)[:, 0]
        answer = model(*batch)
        torch.testing.assert_close(answer.severity_low, model.permille(middle - (1.5 + longer) * (middle - low)))
        torch.testing.assert_close(answer.severity_permille, model.permille(middle))
        torch.testing.assert_close(answer.severity_high, model.permille(middle + (0.8 + longer) * (high - middle)))


def test_kinds_of_buildings_have_intervals_of_their_own():
    model, batch = small_model(), inputs([4, 4, 4])
    batch[2][:] = batch[2][0]
    batch[2][:, names(GEOMETRY).index("log_points")] = torch.tensor([9.0, 10.0, 20.0]).log()
    torch.testing.assert_close(kinds(batch[2]), torch.eye(3))
    with torch.inference_mode():
        model.get_buffer("severity_mean").fill_(1.0)
        model.get_buffer("severity_sd").fill_(0.1)
        model.get_buffer("interval_length").zero_()
        model.get_buffer("interval_above").copy_(torch.tensor([[1.0], [1.5], [0.5]]).expand(KINDS, 5))
        _, middle, high = model.raw(*batch).severity_B3.T
        wanted = middle + torch.tensor([1.0, 1.5, 0.5]) * (high - middle)
        torch.testing.assert_close(model(*batch).severity_high, model.permille(wanted))


@given(st.integers(0, 1000), SCALES, SCALES)
def test_a_severity_is_inside_where_categories_on_both_sides_are_let_in(seed, below, above):
    """And outside where neither its own category lets it in nor one farther out."""
    severity, truth = drawn(seed)
    number = torch.bucketize(truth, EDGES, right=True)
    below, above = torch.tensor(below), torch.tensor(above)
    low, high = stretched(severity, below.expand(40, 5), above.expand(40, 5), EDGES)
    (short, beyond), (under, over) = deviations(severity, truth, EDGES), distances(severity, EDGES)
    columns = torch.arange(5)
    farther = (columns < number[:, None]) & (under <= below.clamp(min=0))
    own = torch.where(number > 0, below.clamp(min=NEAREST)[number], below.clamp(min=0)[number])
    inside = farther.any(1) | (short <= own)
    near = ((short - own).abs() < 1e-4) | ((under - below.clamp(min=0)).abs() < 1e-4).any(1)  # told apart by rounding
    assert torch.equal((low[:, 0] <= truth)[~near], inside[~near])
    farther = (columns > number[:, None]) & (over <= above.clamp(min=0))
    own = above.clamp(min=NEAREST)[number]
    inside = farther.any(1) | (beyond <= own)
    near = ((beyond - own).abs() < 1e-4) | ((over - above.clamp(min=0)).abs() < 1e-4).any(1)
    assert torch.equal((truth <= high[:, 0])[~near], inside[~near])


def test_category_0_is_let_in_whole_or_not_at_all():
    severity = torch.tensor([[-0.6, -0.2, 0.2], [-0.2, 0.2, 0.6], [-0.9, -0.7, -0.3]])
    nothing, one = torch.full((3, 5), NOTHING), torch.ones(3, 5)
    low, _ = stretched(severity, one, nothing, EDGES)
    assert low[:, 0].tolist() == pytest.approx([-math.inf, -0.2, -math.inf])
    low, high = stretched(severity, nothing, nothing, EDGES)
    below, above = halves(severity)
    assert torch.isneginf(low[2])
    torch.testing.assert_close(low[:2], severity[:2, 1:2] - NEAREST * below[:2])
    torch.testing.assert_close(high, severity[:, 1:2] + NEAREST * above)


def test_who_may_have_no_damage_has_a_lower_end_of_0():
    model, batch = small_model(), inputs([4, 9, 1, 7])
    model.get_buffer("interval_below").fill_(100.0)
    with torch.inference_mode():
        assert model(*batch).severity_low.tolist() == [0.0] * 4
        model.get_buffer("interval_below").fill_(NOTHING)
        model.get_buffer("interval_length").zero_()
        answer = model(*batch)
        severity = model.raw(*batch).severity_B3
    nearest = model.permille(severity[:, 1] - NEAREST * halves(severity)[0][:, 0])
    sound = answer.severity_permille < CATEGORY_BOUNDS_PERMILLE[0]
    torch.testing.assert_close(answer.severity_low, nearest.where(~sound, torch.zeros(())))


@given(st.floats(0.01, 3), st.floats(0.01, 3), st.floats(NEAREST, 2), st.floats(0, 3))
def test_a_length_is_shared_between_the_sides_as_the_halves_are(below, above, scale, length):
    """Where the network's interval is at least `MIN_WIDTH` long, it is `scale` times as long and
    `length` longer."""
    severity = torch.tensor([[3 - below, 3.0, 3 + above]])
    scale_BC = (scale + length * narrowness(severity)).expand(1, 5)
    low, high = stretched(severity, scale_BC, scale_BC, EDGES - 100)
    width = below + above
    assert (high - low).item() == pytest.approx(scale * width + length * min(1, width / MIN_WIDTH), rel=1e-3)
    torch.testing.assert_close((3 - low) * above, (high - 3) * below, rtol=1e-3, atol=1e-4)
