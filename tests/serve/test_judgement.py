from types import SimpleNamespace

import geopandas
import numpy as np
import pytest
import shapely
from hypothesis import given
from hypothesis import strategies as st

from plumbline.export.answers import Answers
from plumbline.export.judged import blurred, torn
from plumbline.params import Prepare
from plumbline.serve.judgement import judgement, unsure_where
from tests.prepare.test_resolution import buildings

LIMITS = Prepare(max_strain_error_permille=0.3, min_quadrant_confidence=0.5)
CASES = {
    # severity, confidence, error of each of 16 points in mm (10 m: strain error 0.058 of it), novelty -> status
    "damaged in a place": (2.0, 0.5, 1.0, 0.2, "ok"),
    "damaged, no telling where": (0.7, 0.49, 1.0, 0.2, "insufficient_points"),
    "perhaps damaged, no telling where": (0.49, 0.36, 1.0, 0.2, "insufficient_points"),
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
    answers = Answers(
        np.stack([rest, confidence, rest, rest], axis=1), severity, severity / 2, severity * 2, novelty
    )  # fmt: skip
    count = len(cases)
    prepared = SimpleNamespace(
        sequences=buildings([[float(one)] * 16 for one in error], (10, 10)), footprint=np.arange(count),
        n_points=np.full(count, 16),
    )  # fmt: skip
    squares = [shapely.box(20 * i, 0, 20 * i + 10, 10) for i in range(count)]
    frame = geopandas.GeoDataFrame({"building_id": [str(i) for i in range(count)]}, geometry=squares, crs="EPSG:3035")
    table = judgement(prepared, answers, frame, limits, "1")
    return table["status"].tolist(), unsure_where(prepared, answers, limits).tolist()


@pytest.mark.parametrize("name", CASES)
def test_who_is_judged(name):
    *case, status = CASES[name]
    assert judged([case])[0] == [status]


@pytest.mark.parametrize(("points", "tracks", "judged"), [(6, 1, True), (5, 1, False), (7, 2, True), (6, 2, False),
                                                          (10, 8, False), (13, 8, True)])  # fmt: skip
def test_points_that_a_tilt_and_the_tracks_offsets_explain_say_nothing(points, tracks, judged):
    """A plane through 3 + 7 of 10 points on 8 tracks leaves nothing, whatever the building does."""
    sequences = buildings([[0.5] * points], (10, 10), tracks)
    assert blurred(sequences, Prepare(min_points=5)).tolist() == [not judged]


@pytest.mark.parametrize(
    ("severity", "needed"), [(0.1, 0.0), (0.3, 0.25), (0.4, 0.3125), (0.5, 0.375), (0.6, 0.4375), (0.7, 0.5), (5, 0.5)]
)
def test_the_likelier_the_damage_the_more_probable_a_quadrant_has_to_be(severity, needed):
    def asked(confidence, full=0.5):
        limits = LIMITS.model_copy(update={"min_quadrant_confidence": full})
        return torn(answered_as(severity, confidence), limits).tolist()

    assert asked(needed + 1e-4) == [False]
    assert needed <= 0.25 or asked(needed - 1e-4) == [True]
    assert asked(0.25, full=0.0) == [False]


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


def test_of_footprints_that_were_not_prepared_none_is_unsure():
    empty = Answers(np.zeros((0, 4), np.float32), *(np.zeros(0, np.float32),) * 4)
    none = buildings([[1.0]], (10, 10)).take(np.arange(0))
    prepared = SimpleNamespace(sequences=none, footprint=np.arange(0), n_points=np.zeros(3, int))
    assert unsure_where(prepared, empty, LIMITS).tolist() == [False] * 3
