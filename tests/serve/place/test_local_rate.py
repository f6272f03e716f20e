"""Shares of damaged buildings by cause and by place."""

from __future__ import annotations

import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.serve.base_rate import LEAST_RATE, DamageRate, Prior, estimate_rate, fixed_rate, likeliest_rate
from plumbline.serve.place.causes import MIN_JUDGED, PSEUDO_BUILDINGS, REACHES_M, shares_by_cause
from plumbline.serve.place.local_rate import (
    MIN_GAIN,
    NEIGHBOURS,
    ONE_SHARE,
    RateVariation,
    local_rates,
    shares_by_place,
)
from plumbline.sources.city.causes import Cause
from tests.refusals import warned

SHARE, SIDE_M, BAND_M = 0.49, 3000.0, 75.0
LINE = shapely.LineString([(SIDE_M / 2, 0), (SIDE_M / 2, SIDE_M)])


def town(count, seed=0, near=0.3, far=0.005, apart=3.0):
    """Places, which are damaged (`near` of those along the line), and the odds of a calibrated model."""
    rng = np.random.default_rng(seed)
    place = rng.uniform(0, SIDE_M, (count, 2))
    damaged = rng.random(count) < np.where(np.abs(place[:, 0] - SIDE_M / 2) < BAND_M, near, far)
    return place, damaged, np.exp(rng.normal(np.where(damaged, 1, -1) * apart**2 / 2, apart))


def said(odds):
    """Probabilities at the share of the calibration."""
    return SHARE * odds / (SHARE * odds + 1 - SHARE)


def by_cause(causes, place, odds, city=None, able=None):
    able = np.ones(len(place), bool) if able is None else able
    city = estimate_rate(said(odds)[able], np.ones(able.sum()), SHARE).rate if city is None else city
    return shares_by_cause(causes, shapely.points(place), p_damaged=said(odds), able=able, share=SHARE, city=city)


def line(name="tunnel", reach_m=None, moved_m=0.0):
    return Cause(name, shapely.transform(LINE, lambda at: at + np.array([moved_m, 0])), reach_m)


def precision(odds, rate, damaged):
    """Average precision of the list."""
    ranked = damaged[np.argsort(-(rate * odds / (rate * odds + 1 - rate)), kind="stable")]
    return (np.cumsum(ranked) / np.arange(1, len(ranked) + 1))[ranked].mean()


def test_sure_answers_give_the_counted_shares_drawn_to_that_of_the_city():
    """20 of 40 near, 4 of 400 far: (20 + 5 c) / 45 and (4 + 5 c) / 405."""
    place = np.column_stack([np.r_[np.full(40, SIDE_M / 2), np.full(400, 10.0)], np.linspace(0, SIDE_M, 440)])
    odds = np.where(np.r_[np.arange(40) < 20, np.arange(400) < 4], 1e8, 1e-8)
    found = by_cause([line(reach_m=30)], place, odds)
    city = estimate_rate(said(odds), np.ones(len(odds)), SHARE).rate.rate
    assert city == pytest.approx(24 / 440, rel=0.1)
    assert found.rate[[0, -1]] == pytest.approx(
        [(20 + PSEUDO_BUILDINGS * city) / (40 + PSEUDO_BUILDINGS), (4 + PSEUDO_BUILDINGS * city) / 405], rel=1e-3
    )
    assert found.cause.tolist() == ["tunnel"] * 40 + [None] * 400
    (told,) = found.causes
    assert told[:5] == ("tunnel", 30.0, True, 40, found.rate[0])
    assert told.damage_rate_low < told.damage_rate < told.damage_rate_high
    assert told.counts


@pytest.mark.parametrize("prior", [Prior(0.02, 5), Prior(0.4, 50), Prior(0.1, 1e6)])
def test_a_prior_counts_as_buildings_that_were_looked_at(prior):
    p = said(np.random.default_rng(0).lognormal(-1, 2, 60))
    rates = np.linspace(1e-4, SHARE, 20_000)
    odds = (p / (1 - p))[:, None] * (1 - SHARE) / SHARE
    held = prior.buildings * (prior.rate * np.log(rates) + (1 - prior.rate) * np.log1p(-rates))
    best = rates[(np.log1p(rates * (odds - 1)).sum(0) + held).argmax()]
    found = likeliest_rate(p, SHARE, prior)
    assert found.low <= found.rate <= found.high
    assert best <= found.rate + 1e-4
    assert found.rate == pytest.approx(best, abs=0.02)


@pytest.mark.parametrize("seed", range(2))
def test_along_a_line_the_reach_and_both_shares_are_found(seed, caplog):
    place, damaged, odds = town(3000, seed)
    with caplog.at_level("INFO", "plumbline"):
        found = by_cause([line()], place, odds)
    named = found.cause == "tunnel"
    reach = np.abs(place[named, 0] - SIDE_M / 2).max()
    assert BAND_M * 0.6 < reach < BAND_M * 1.4
    assert found.rate[named][0] == pytest.approx(damaged[named].mean(), abs=0.1)
    assert found.rate[~named][0] < 0.02
    assert precision(odds, found.rate, damaged) > precision(odds, np.full(3000, 0.02), damaged) + 0.05
    assert f"tunnel, within {min(one for one in REACHES_M if one >= reach):g} m: {named.sum()} judged" in caplog.text


@pytest.mark.parametrize("reach_m", [None, 100.0])
def test_where_no_more_is_damaged_a_cause_changes_nothing(reach_m, caplog):
    place, _, odds = town(3000)
    with caplog.at_level("INFO", "plumbline"):
        found = by_cause([line(reach_m=reach_m, moved_m=900)], place, odds)
    assert len(np.unique(found.rate)) == 1
    assert not found.cause.astype(bool).any()
    assert "show no more damage than the others" in caplog.text
    (told,) = found.causes
    assert (told.counts, told.reach_given, told.damage_rate) == (False, reach_m is not None, found.rate[0])
    assert f"the {told.judged_buildings} judged buildings within {told.reach_m:g} m" in caplog.text


def test_a_building_belongs_to_the_nearest_cause_that_reaches_it():
    place = np.column_stack([np.repeat([0.0, 40.0, 500.0], 60), np.tile(np.linspace(0, 1, 60), 3)])
    odds = np.where(np.arange(180) % 60 < np.repeat([30, 20, 0], 60), 1e8, 1e-8)
    causes = [Cause("a", shapely.Point(-10, 0), 100.0), Cause("b", shapely.Point(45, 0), 20.0)]
    assert by_cause(causes, place, odds).cause[[0, 60, 120]].tolist() == ["a", "b", None]
    causes[1] = causes[1]._replace(reach_m=1.0)  # too short
    found = by_cause(causes, place, odds)
    assert found.cause[[0, 60, 120]].tolist() == ["a", "a", None]
    a, b = found.causes
    assert (a.judged_buildings, a.damage_rate) == (120, found.rate[0])
    assert (b.judged_buildings, b.damage_rate, b.counts) == (0, found.rate[120], False)  # that of the others


def test_a_given_share_stays_the_mean_over_all():
    place, _, odds = town(3000)
    found = by_cause([line()], place, odds, fixed_rate(0.05))
    assert found.rate.mean() == pytest.approx(0.05, rel=1e-6)
    assert len(np.unique(found.rate)) == 2
    where = RateVariation([line()], True)
    able, rate = np.ones(3000, bool), fixed_rate(0.05)
    whole = local_rates(where, shapely.points(place), p_damaged=said(odds), able=able, share=SHARE, city=rate)
    assert (whole.rate == found.rate).all()  # neighbours do not change a given share


def test_those_that_do_not_count_change_nothing_and_have_the_share_of_their_group():
    place, _, odds = town(3000)
    able = np.random.default_rng(1).random(3000) < 0.8
    found = by_cause([line()], place, odds, able=able)
    other = by_cause([line()], place, np.where(able, odds, 1e6), able=able)
    assert (found.rate == other.rate).all()
    assert set(found.rate[~able]) == set(found.rate)


@pytest.mark.parametrize("seed", range(2))
def test_where_damage_gathers_the_neighbours_tell_so(seed):
    place, damaged, odds = town(3000, seed)
    city = np.full(3000, 0.02)
    found = shares_by_place(odds, place, city, SHARE)
    assert found.gain > 2 * MIN_GAIN
    assert precision(odds, found.rate, damaged) > precision(odds, city, damaged) + 0.03


def test_on_shuffled_places_nothing_is_gained():
    """The trap: answers that feed their neighbours and come back would gain here."""
    gains = []
    for seed in range(5):
        place, _, odds = town(1500, seed)
        rate = np.full(1500, estimate_rate(said(odds), np.ones(len(odds)), SHARE).rate.rate)
        found = shares_by_place(odds, np.random.default_rng(1000 + seed).permutation(place), rate, SHARE)
        gains.append(found.gain)
        assert found.rate is rate
    assert np.quantile(gains, 0.9) < 3


def test_a_buildings_own_odds_do_not_move_its_share():
    place, _, odds = town(800, 1)
    rate = np.full(800, 0.02)
    found = shares_by_place(odds, place, rate, SHARE)
    assert found.gain > MIN_GAIN
    for one in (3, 77, 500):
        changed = np.where(np.arange(800) == one, odds * 1.5, odds)
        assert shares_by_place(changed, place, rate, SHARE).rate[one] == found.rate[one]


@given(seed=st.integers(0, 2**20), count=st.integers(0, 300), rate=st.floats(1e-4, SHARE), apart=st.floats(0, 8))
def test_shares_stay_within_bounds_and_follow_the_buildings_when_they_are_permuted(seed, count, rate, apart):
    place, _, odds = town(count, seed, near=0.9, far=0.2, apart=apart)
    order = np.random.default_rng(seed).permutation(count)
    geometry, p, able = shapely.points(place), said(odds), np.ones(count, bool)
    for where in (ONE_SHARE, RateVariation((), True), RateVariation([line()], True)):
        given = {"able": able, "share": SHARE, "city": DamageRate(rate, 0.0, 1.0, True)}
        found = local_rates(where, geometry, p_damaged=p, **given)
        again = local_rates(where, geometry[order], p_damaged=p[order], **given)
        np.testing.assert_allclose(again.rate, found.rate[order], rtol=1e-6)
        assert (again.cause == found.cause[order]).all()
        assert (found.rate >= min(LEAST_RATE, rate) * (1 - 1e-9)).all()
        assert (found.rate <= SHARE * (1 + 1e-9)).all()
    if count <= max(NEIGHBOURS[0], MIN_JUDGED):
        assert (found.rate == rate).all()


def test_buildings_at_one_place_are_no_neighbours_of_themselves():
    odds = np.exp(np.random.default_rng(0).normal(0, 1, 100))
    found = shares_by_place(odds, np.zeros((100, 2)), np.full(100, 0.1), SHARE)
    assert np.isfinite(found.rate).all()


@pytest.mark.parametrize("swaps", [True, False])
def test_causes_that_reach_nothing_are_warned_of_with_their_distance(swaps, caplog):
    place, _, odds = town(300)
    far = Cause("well", shapely.Point(SIDE_M / 2, -9e6), None, shapely.Point(SIDE_M / 2, 0) if swaps else None)
    by_cause([far, Cause("nowhere", shapely.Point(), None)], place, odds)
    (warning,) = warned(caplog, "causes.out_of_reach", "well", "9,000 km")
    assert ("swap them in the file" in warning) == swaps
