"""From answers to the table: who is judged, at what share of damage, and what is said of it."""

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import assume, given
from hypothesis import strategies as st

from plumbline.params import Prepare
from plumbline.prepare.abstention import (
    LEANING,
    UNSURE_WHERE,
    ModelledBuildings,
    has_no_probable_quadrant,
    has_too_little_data,
    is_judged,
    quadrant_confidence,
    reason_sentences,
    status_of,
    strain_error,
)
from plumbline.serve.base_rate import estimate_rate
from plumbline.serve.columns import DAMAGE_COLUMNS, JUDGEMENT, OPTIONAL, has_answer
from plumbline.serve.judgement import ModelSummary, judge, log_damaged, log_unjudged
from plumbline.serve.place.local_rate import RateVariation
from plumbline.serve.predictions import write_predictions
from plumbline.sources.city.causes import Cause
from tests.prepare.features.test_strain_resolution import buildings
from tests.serve.made import SHARE, answers_of, whole_buildings

LIMITS = Prepare(max_strain_error_permille=0.3, min_quadrant_confidence=0.55)
CALIBRATED = sum(SHARE[1:])
MODEL = ModelSummary("1", SHARE)
CASES = {
    # probability of damage, confidence, error of each of 16 points in mm (10 m: strain error 0.058 of it), novelty
    "damaged in a place": (0.99, 0.56, 1.0, 0.2, "ok"),
    "damaged, no telling where": (0.99, 0.53, 1.0, 0.2, "unsure_where"),
    "perhaps damaged, no telling where": (0.7, 0.34, 1.0, 0.2, "unsure_where"),
    "perhaps damaged, sooner there than elsewhere": (0.7, 0.39, 1.0, 0.2, "ok"),
    "not damaged, so in no quadrant": (0.5, 0.26, 1.0, 0.2, "ok"),
    "noisy points, whatever is found": (0.99, 0.9, 9.0, 0.2, "noisy_points"),
    "unlike training": (0.99, 0.9, 1.0, 1.2, "out_of_distribution"),
    "unlike training, no telling where": (0.99, 0.3, 1.0, 1.2, "out_of_distribution"),
    "no figure": (np.nan, 0.9, 1.0, 0.2, "out_of_distribution"),
}


def town(count):
    squares = [shapely.box(20 * i, 0, 20 * i + 10, 10) for i in range(count)]
    return geopandas.GeoDataFrame({"building_id": [str(i) for i in range(count)]}, geometry=squares, crs="EPSG:3035")


def answered(p_damaged, confidence, novelty=0.2):
    """Answers whose NW is the likeliest, and right with this probability."""
    p_damaged, confidence = np.atleast_1d(p_damaged).astype(float), np.atleast_1d(confidence)
    rest = (1 - confidence) / 3
    return answers_of(
        np.stack([rest, confidence, rest, rest], axis=1),
        np.where(np.isnan(p_damaged), np.nan, np.where(p_damaged >= 0.5, 2.0, 0.2)),
        novelty=novelty,
        p_damaged=p_damaged,
    )


def judged(cases, limits=LIMITS, rate=CALIBRATED):
    """The reasons of buildings in a row."""
    p_damaged, confidence, error, novelty = (np.array(column, float) for column in zip(*cases, strict=True))
    count = len(cases)
    errors = strain_error(buildings([[float(one)] * 16 for one in error], (10, 10)))
    asked = ModelledBuildings(np.arange(count), np.full(count, 16), np.zeros(count, bool), errors)
    found = judge(asked, answered(p_damaged, confidence, novelty), town(count), limits, MODEL, damage_rate=rate)
    return found.reason.tolist()


@pytest.mark.parametrize("name", CASES)
def test_who_is_judged(name):
    *case, reason = CASES[name]
    assert judged([case]) == [reason]
    if reason == UNSURE_WHERE and case[0] < 0.9:  # where one in fifty is damaged, it is most probably sound
        assert judged([case], rate=0.02) == ["ok"]


@pytest.mark.parametrize(
    ("points", "tracks", "judged"),
    [(6, 1, True), (5, 1, False), (7, 2, True), (6, 2, False), (10, 8, False), (13, 8, True)],
)
def test_points_that_a_tilt_and_the_tracks_offsets_explain_say_nothing(points, tracks, judged):
    """A plane through 3 + 7 of 10 points on 8 tracks leaves nothing, whatever the building does."""
    sequences = buildings([[0.5] * points], (10, 10), tracks)
    assert has_too_little_data(sequences, Prepare(min_points=5)).tolist() == [not judged]


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_damage_elsewhere_than_said_has_at_most_the_chance_that_is_asked_for(p_damaged, confidence, limit):
    elsewhere = p_damaged * (1 - confidence)
    assume(abs(elsewhere - (1 - limit)) > 1e-5)
    limits = LIMITS.model_copy(update={"min_quadrant_confidence": limit})
    answers = answers_of([[0.1, 0.7, 0.1, 0.1]], [1.0], accepted=[[1, confidence, 1, 1]], p_damaged=[p_damaged])
    assert has_no_probable_quadrant(answers, limits).tolist() == [elsewhere > 1 - limit]


def test_a_quadrant_is_as_sure_as_it_is_accepted_and_not_as_it_is_probable():
    """A whole end: either quadrant is right for sure, though each has but half of the probability."""
    answers = answers_of([[0.48, 0.02, 0.01, 0.49]], [2.0], accepted=[[0.97, 0.05, 0.02, 0.95]])
    np.testing.assert_allclose(quadrant_confidence(answers), [0.95], rtol=1e-6)  # of the likeliest, SE
    assert not has_no_probable_quadrant(answers, LIMITS)[0]
    alone = answers._replace(accepted_probability=answers.quadrant_probability)
    assert has_no_probable_quadrant(alone, LIMITS)[0]


@pytest.mark.parametrize("name", ["level_probability", "accepted_probability", "mechanism_probability", "severity_low"])
def test_an_answer_with_a_part_that_is_no_number_is_none(name):
    answers = answered([0.9, 0.9], [0.9, 0.9])
    part = getattr(answers, name).copy()
    part[1] = np.nan
    sequences = buildings([[1.0] * 16] * 2, (10, 10))
    assert is_judged(sequences, answers._replace(**{name: part}), LIMITS).tolist() == [True, False]


def nobody():
    return answers_of(np.zeros((0, 4)), np.zeros(0), novelty=np.zeros(0))


def nothing_asked(n_points):
    return ModelledBuildings(np.arange(0), np.asarray(n_points), np.zeros(0, bool), np.zeros(0))


def test_footprints_that_were_not_prepared_have_a_reason_of_their_own():
    side = [(10, 10), (1, 10), (10, 400), (10, 10), (10, 10)]
    shapes = np.array([shapely.box(0, 0, *one) for one in side])
    found = status_of(nothing_asked([0, 9, 9, 4, 12]), nobody(), shapes, LIMITS)
    assert found.status.tolist() == ["insufficient_points"] * 5
    assert found.reason.tolist() == ["no_points", "too_small", "too_large", "few_points", "noisy_points"]
    said = reason_sentences(LIMITS)
    assert found.explanation[:4].tolist() == [said[name] for name in found.reason[:4]]
    assert "on one line" in found.explanation[4]


def test_each_reason_after_the_answer_has_its_limit_and_the_figure_of_its_building():
    few, error = np.array([True, False, False, False, False]), np.array([9.0, 0.8, 0.3004, 0.1, 0.1])
    asked = ModelledBuildings(np.arange(5), np.array([6, 12, 12, 12, 12]), few, error)
    # The last but one has no probable quadrant either, but its answer is none.
    answers = answered([0.99, 0.99, 0.2, 0.99, 0.99], [0.3, 0.3, 0.9, 0.3, 0.3], [0.2, 0.2, 0.2, 1.2, 0.2])
    found = status_of(asked, answers, town(5).geometry.to_numpy(), LIMITS)
    assert found.status.tolist() == ["insufficient_points"] * 5
    assert found.reason.tolist() == ["few_points", "noisy_points", "noisy_points", "out_of_distribution", UNSURE_WHERE]
    assert found.explanation[0] == "it has too few points: 5 and one more for each track are needed"
    assert found.explanation[1] == "its points are too noisy (strain error 0.8 permille; at most 0.3 is judged)"
    assert "(strain error 0.31 permille; at most 0.3 is judged)" in found.explanation[2]  # never the limit itself
    assert set(found.reason) < set(reason_sentences(LIMITS))


def test_one_that_leans_too_far_is_not_called_sound():
    """Where its points could not show moderate damage; one that is found to be damaged is judged."""
    asked = ModelledBuildings(np.arange(4), np.full(4, 12), np.zeros(4, bool), np.full(4, 0.1))
    answers = answered([0.04, 0.04, 0.04, 0.99], [0.9] * 4, [0.2] * 4)
    seen = {"tilt": np.full((4, 2), np.nan), "resolution": [9.0, 0.4, 9.0, 9.0], "lean": [9.0, 13.0, 13.0, 13.0]}
    whole = whole_buildings(np.ones((4, 1)), [[0.0, 0.0, 1.0]], **seen)
    found = judge(asked, answers, town(4), LIMITS, MODEL, damage_rate=CALIBRATED, whole=whole)
    assert found.reason.tolist() == ["ok", "ok", LEANING, "ok"]
    assert found.table["status"].tolist() == ["ok", "ok", "insufficient_points", "ok"]
    assert found.explanation[2].endswith("These points could show 9 permille at best")


def city(count=400, rate=0.1, seed=0):
    """What a calibrated model says of a city, of which every fifth building has too poor points and one in nine none.

    Returns what it was asked, its answers, the footprints, and which of those are damaged.
    """
    rng = np.random.default_rng(seed)
    damaged = rng.random(count) < rate
    sign = rng.normal(np.where(damaged, 2.5, 0.0), 1)
    odds = np.exp(2.5 * sign - 2.5**2 / 2) * CALIBRATED / (1 - CALIBRATED)
    there = np.flatnonzero(rng.random(count) > 1 / 9)
    probability = rng.dirichlet(np.full(4, 0.3), len(there))
    answers = answers_of(
        probability,
        np.where(odds > 1, 1.0, 0.3)[there],
        accepted=np.minimum(1.2 * probability, 1),
        p_damaged=(odds / (1 + odds))[there],
        mechanism=rng.dirichlet(np.full(6, 0.3), len(there)),
    )
    points = np.zeros(count, int)
    points[there] = 12
    return ModelledBuildings(there, points, there % 5 == 0, np.full(len(there), 0.1)), answers, town(count), damaged


@pytest.fixture(scope="module")
def result():
    asked, answers, footprints, _ = city()
    return judge(asked, answers, footprints, LIMITS, MODEL)


def test_the_rate_is_estimated_from_those_that_can_be_judged(result):
    asked, answers, *_ = city()
    able = ~asked.few
    said = 1 - answers.category_probability[able, 0]
    assert result.rate == estimate_rate(said, asked.strain_error[able], CALIBRATED).rate
    assert result.rate.low <= 0.1 <= result.rate.high
    odd = answers._replace(novelty=np.where(asked.few, 0.2, 2).astype(np.float32))
    assert judge(asked, odd, town(400), LIMITS, MODEL).rate == estimate_rate(np.zeros(0), np.zeros(0), CALIBRATED).rate


def test_every_row_stands_for_the_estimated_rate(result, tmp_path):
    table, ok = result.table, result.table["status"] == "ok"
    asked, _, footprints, _ = city()
    assert table["building_id"].tolist() == footprints["building_id"].tolist()
    assert ok.sum() > 150
    assert (table.loc[ok, "damage_rate"] == result.rate.rate).all()
    assert table.loc[~ok, [name for name in JUDGEMENT if name not in DAMAGE_COLUMNS]].isna().all(axis=None)
    assert table.index[table["p_damaged"].notna()].tolist() == asked.footprint.tolist()
    assert table.loc[ok, [name for name in JUDGEMENT if name not in OPTIONAL]].notna().all(axis=None)
    assert (result.reason[~np.isin(np.arange(400), asked.footprint)] == "no_points").all()
    categories = table.loc[ok, [f"p_category_{number}" for number in range(5)]].to_numpy(float)
    np.testing.assert_allclose(categories.sum(1), 1, atol=1e-6)
    np.testing.assert_allclose(table.loc[ok, "p_damaged"], 1 - categories[:, 0], atol=1e-9)
    write_predictions(table, tmp_path / "out.csv")  # which checks the contract


def test_as_many_are_damaged_as_their_probabilities_say(result):
    """All that could be judged: who is unsure where is left out for being probably damaged."""
    asked, answers, footprints, damaged = city(4000)
    found = judge(asked, answers, footprints, LIMITS.model_copy(update={"min_quadrant_confidence": 0.0}), MODEL)
    ok = (found.table["status"] == "ok").to_numpy()
    said = found.table.loc[ok, "p_damaged"].to_numpy(float)
    assert said.sum() == pytest.approx(damaged[ok].sum(), rel=0.15)
    sure = said > 0.8
    assert damaged[ok][sure].mean() == pytest.approx(said[sure].mean(), abs=0.06)


def test_what_is_judged_and_damaged_is_logged_with_the_way_to_go_on(result, caplog):
    caplog.set_level("INFO")
    log_damaged(result, "Rome: ")
    log_unjudged(result, "Rome: ")
    p = result.table.loc[has_answer(result.table), "p_damaged"]
    share = str(result.rate)[:1].upper() + str(result.rate)[1:]
    few, none = (int((result.reason == name).sum()) for name in ("few_points", "no_points"))
    assert caplog.messages == [
        f"Rome: {share}. p_damaged is 0.9 or more for {(p >= 0.9).sum()} of the {len(p)} answered, "
        f"0.5 or more for {(p >= 0.5).sum()}. Sort by p_damaged to triage",
        f"Rome: not judged: {few} few_points, {none} no_points",
    ]
    caplog.clear()
    nothing = judge(nothing_asked([0, 0, 0]), nobody(), town(3), LIMITS, MODEL, damage_rate=0.02)
    assert nothing.table["status"].tolist() == ["insufficient_points"] * 3
    assert (nothing.rate.rate, nothing.rate.low, nothing.rate.high, nothing.rate.estimated) == (0.02, 0.02, 0.02, False)
    log_damaged(nothing)
    log_unjudged(result._replace(table=result.table.assign(reason="ok")))
    assert caplog.messages == []


def test_near_to_a_cause_a_building_has_another_share_and_its_name():
    odds = np.where(np.arange(400) < 40, np.where(np.arange(400) % 2, 30.0, 0.03), 0.05)
    asked = ModelledBuildings(np.arange(400), np.full(400, 16), np.zeros(400, bool), np.full(400, 0.1))
    answers = answered(odds / (1 + odds), np.full(400, 0.9))
    where = RateVariation([Cause("tunnel", shapely.box(0, -5, 39.5 * 20, -2), 10.0)], True)
    found = judge(asked, answers, town(400), LIMITS, MODEL, where=where)
    plain = judge(asked, answers, town(400), LIMITS, MODEL)
    table = found.table
    assert table["cause"].fillna("").tolist() == ["tunnel"] * 40 + [""] * 360
    assert table["damage_rate"].nunique() == 2
    assert table["damage_rate"].iloc[0] > 3 * found.rate.rate > 3 * table["damage_rate"].iloc[-1]
    assert (table["p_damaged"][:40] > plain.table["p_damaged"][:40]).all()
    assert (table["p_damaged"][40:] < plain.table["p_damaged"][40:]).all()
    assert plain.table["cause"].isna().all()
    assert found.causes["damage_rate"].tolist() == [table["damage_rate"].iloc[0]]
    assert found.causes.crs == found.table.crs
    assert plain.causes is None
    assert str(found.rate) == f"{plain.rate}; where damage gathers, buildings have shares of their own (damage_rate)"
