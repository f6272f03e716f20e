import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.params import Train
from plumbline.train.fit.fitting import rate_factor

scores = st.lists(st.floats(-1, 1), max_size=30)


def section(**changed) -> Train:
    return Train(**{"epochs": 10, "patience": 6, "learning_rate": 0.1, **changed})


def test_constant_stays():
    assert [rate_factor(section(schedule="constant"), p, [0.0] * int(p)) for p in (0.1, 5, 10)] == [1, 1, 1]


@pytest.mark.parametrize("warmup", [{"warmup_epochs": 2.0}, {"warmup_share": 0.2}])
@pytest.mark.parametrize("schedule", ["plateau", "cosine", "constant"])
def test_warm_up_rises_evenly_from_nothing(schedule, warmup):
    rising = [rate_factor(section(schedule=schedule, **warmup), p, []) for p in (0, 0.5, 1, 1.5, 2)]
    assert rising == pytest.approx([0, 0.25, 0.5, 0.75, 1])


def test_cosine_falls_along_half_a_wave_after_the_warm_up():
    cosine = section(schedule="cosine", warmup_epochs=2)
    for position in np.linspace(2, 10, 9):
        assert rate_factor(cosine, position, []) == pytest.approx((1 + np.cos(np.pi * (position - 2) / 8)) / 2)
    assert rate_factor(cosine, 10.01, []) == 0


@pytest.mark.parametrize(("best", "others"), [(1.0, 0.5), (-0.5, -0.5)])
def test_plateau_halves_after_a_third_of_the_patience_without_a_better_score(best, others):
    found = [rate_factor(section(), 0, [best] + [others] * bad) for bad in range(7)]
    assert found == [1, 1, 0.5, 0.5, 0.25, 0.25, 0.125]


@pytest.mark.parametrize(("patience", "bad"), [(12, 4), (6, 2), (3, 1), (2, 1), (1, 1)])
def test_a_third_of_the_patience_is_one_epoch_at_least(patience, bad):
    found = [rate_factor(section(patience=patience), 0, [1.0] + [0.5] * count) for count in (bad - 1, bad)]
    assert found == [1, 0.5]


def test_plateau_counts_every_rise_as_the_checkpoints_do():
    assert rate_factor(section(), 0, [0.5 + 1e-5 * number for number in range(20)]) == 1


@given(scores, st.floats(0, 10))
def test_plateau_is_a_power_of_a_half_and_never_rises(seen, position):
    found = [rate_factor(section(), position, seen[:count]) for count in range(len(seen) + 1)]
    assert all(np.log2(value) == int(np.log2(value)) for value in found)
    assert all(later <= earlier for earlier, later in itertools.pairwise(found))
