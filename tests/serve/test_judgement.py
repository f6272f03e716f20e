from types import SimpleNamespace

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.export.answers import Answers
from plumbline.params import Prepare
from plumbline.prepare.abstention import UNSURE_WHERE, has_no_probable_quadrant, has_too_little_data, status_of
from plumbline.serve.judgement import judge
from tests.prepare.features.test_strain_resolution import buildings

LIMITS = Prepare(max_strain_error_permille=0.3, min_quadrant_confidence=0.55)
CASES = {
    # severity, confidence, error of each of 16 points in mm (10 m: strain error 0.058 of it), novelty -> status
    "damaged in a place": (2.0, 0.56, 1.0, 0.2, "ok"),
    "damaged, no telling where": (1.2, 0.54, 1.0, 0.2, "insufficient_points"),
    "perhaps damaged, no telling where": (0.49, 0.34, 1.0, 0.2, "insufficient_points"),
    "perhaps damaged, sooner there than elsewhere": (0.51, 0.39, 1.0, 0.2, "ok"),
    "not damaged, so in no quadrant": (0.29, 0.26, 1.0, 0.2, "ok"),
    "noisy points, whatever is found": (2.0, 0.9, 9.0, 0.2, "insufficient_points"),
    "unlike training": (2.0, 0.9, 1.0, 1.2, "out_of_distribution"),
    "unlike training, no telling where": (2.0, 0.3, 1.0, 1.2, "insufficient_points"),
    "no figure": (np.nan, 0.9, 1.0, 0.2, "out_of_distribution"),
}


def judged(cases, limits=LIMITS):
    """The statuses of buildings in a row, and how many were only not sure where."""
    severity, confidence, error, novelty = (np.array(column, np.float32) for column in zip(*cases, strict=True))
    rest = (1 - confidence) / 3
    answers = Answers(np.stack([rest, confidence, rest, rest], axis=1), severity, severity / 2, severity * 2, novelty)
    count = len(cases)
    prepared = SimpleNamespace(
        sequences=buildings([[float(one)] * 16 for one in error], (10, 10)),
        footprint=np.arange(count),
        n_points=np.full(count, 16),
    )
    squares = [shapely.box(20 * i, 0, 20 * i + 10, 10) for i in range(count)]
    frame = geopandas.GeoDataFrame({"building_id": [str(i) for i in range(count)]}, geometry=squares, crs="EPSG:3035")
    table, reason = judge(prepared, answers, frame, limits, "1")
    return table["status"].tolist(), (reason == UNSURE_WHERE).tolist()


@pytest.mark.parametrize("name", CASES)
def test_who_is_judged(name):
    *case, status = CASES[name]
    assert judged([case])[0] == [status]


@pytest.mark.parametrize(
    ("points", "tracks", "judged"),
    [(6, 1, True), (5, 1, False), (7, 2, True), (6, 2, False), (10, 8, False), (13, 8, True)],
)
def test_points_that_a_tilt_and_the_tracks_offsets_explain_say_nothing(points, tracks, judged):
    """A plane through 3 + 7 of 10 points on 8 tracks leaves nothing, whatever the building does."""
    sequences = buildings([[0.5] * points], (10, 10), tracks)
    assert has_too_little_data(sequences, Prepare(min_points=5)).tolist() == [not judged]


@pytest.mark.parametrize("severity", [0.4, 0.5, 0.6, 0.8, 1.0])
def test_damage_elsewhere_than_said_has_at_most_a_chance_of_one_in_three(severity):
    # s / (s + 0.5) of those said to have s are damaged, and 0.31 to 0.33 of all may be so in another quadrant.
    least, most = (1 - chance * (severity + 0.5) / severity for chance in (0.33, 0.308))
    assert asked(severity, least) == [True]
    assert asked(severity, most) == [False]


@pytest.mark.parametrize("severity", [1.1, 1.5, 3, 20])
def test_from_there_on_a_quadrant_as_probable_as_the_limit_is_told(severity):
    assert asked(severity, 0.551) == [False]
    assert asked(severity, 0.549) == [True]


def test_whoever_is_said_to_be_sound_needs_no_quadrant():
    assert asked(0.0, 0.25) == asked(0.1, 0.25) == asked(0.38, 0.25) == [False]
    assert asked(0.39, 0.25) == [True]


@given(st.floats(0, 30), st.floats(0.25, 1), st.floats(0, 1))
def test_the_limit_moves_what_is_asked_in_proportion(severity, confidence, full):
    assert asked(severity, 0.25, 0.0) == [False]
    assert asked(severity, max(confidence * 0.999, 0.25), full) >= asked(severity, confidence, full)
    # The more severe, the more is asked for, up to the limit.
    assert asked(severity, confidence, full) <= asked(1.2, confidence, full)
    assert asked(1.2, confidence, full) == [float(np.float32(confidence)) < full]


def asked(severity, confidence, full=0.55):
    """Whether a building goes without an answer for want of a quadrant."""
    limits = LIMITS.model_copy(update={"min_quadrant_confidence": full})
    return has_no_probable_quadrant(answered_as(severity, confidence), limits).tolist()


def answered_as(severity, confidence):
    probability = np.array([[confidence, *[(1 - confidence) / 3] * 3]], np.float32)
    return Answers(probability, *(np.array([value], np.float32) for value in (severity, 0, 9, 0)))


def test_those_only_unsure_of_the_place_are_told():
    unsure = judged([case[:4] for case in CASES.values()])[1]
    assert [name for name, one in zip(CASES, unsure, strict=True) if one] == [
        "damaged, no telling where",
        "perhaps damaged, no telling where",
    ]


@given(
    st.lists(
        st.tuples(st.floats(0.01, 10), st.floats(0.25, 1), st.floats(0.1, 20), st.floats(0, 2)), min_size=1, max_size=9
    ),
    st.floats(0, 1),
)
def test_a_limit_takes_answers_away_and_they_are_those_told(cases, bound):
    loose, none = judged(cases, LIMITS.model_copy(update={"min_quadrant_confidence": 0.0}))
    strict, unsure = judged(cases, LIMITS.model_copy(update={"min_quadrant_confidence": bound}))
    assert not any(none)
    assert {now for now, before in zip(strict, loose, strict=True) if before == "ok"} <= {"ok", "insufficient_points"}
    assert all(now != "ok" for now, before in zip(strict, loose, strict=True) if before != "ok")
    lost = [before == "ok" and now != "ok" for before, now in zip(loose, strict, strict=True)]
    assert lost == unsure


def test_footprints_that_were_not_prepared_have_a_reason_of_their_own():
    empty = Answers(np.zeros((0, 4), np.float32), *(np.zeros(0, np.float32),) * 4)
    none = buildings([[1.0]], (10, 10)).take(np.arange(0))
    prepared = SimpleNamespace(sequences=none, footprint=np.arange(0), n_points=np.zeros(3, int))
    shapes = np.array([shapely.box(0, 0, 10, 10)] * 3)
    found = status_of(prepared, empty, shapes, LIMITS)
    assert found.status.tolist() == ["insufficient_points"] * 3
    assert found.reason.tolist() == ["no_points"] * 3
