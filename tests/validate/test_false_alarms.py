"""What is said of sound buildings, by number of scatterers."""

from __future__ import annotations

import numpy as np
import pytest

from plumbline.export.answers import Answers
from plumbline.params import Prepare
from plumbline.prepare.features.shards import load_shards
from plumbline.validate.false_alarms import false_alarms

LENIENT = Prepare(min_points=3, max_strain_error_permille=1e6, min_quadrant_confidence=0)


@pytest.fixture(scope="module")
def data(tiny):
    return load_shards(tiny.data("prepare") / "test")


def said(low, novelty=None):
    """Answers with these lower ends."""
    low = np.asarray(low, np.float32)
    probability = np.tile(np.array([1, 0, 0, 0], np.float32), (len(low), 1))
    new = np.zeros(len(low), np.float32) if novelty is None else np.asarray(novelty, np.float32)
    return Answers(probability, low + 1, low, low + 2, new)


def test_of_a_model_that_says_all_are_sound_none_is_flagged(data):
    found = false_alarms(data, said(np.zeros(len(data))), LENIENT)
    assert found["flagged"] == [[0, 0, 0]] * 3
    assert found["bounds_permille"] == [0.5, 0.75, 1.5]
    assert found["points_from"] == [0, 10, 20]


def test_each_sound_building_counts_once_by_its_scatterers_and_up_to_its_lower_end(data):
    rng = np.random.default_rng(0)
    low = rng.choice([0.0, 0.5, 0.6, 0.75, 1.49, 1.5, 4.0], len(data))
    found = false_alarms(data, said(low), LENIENT)
    length, sound = np.asarray(data.length), np.asarray(data.severity) < 0.5
    kinds = [sound & (length < 10), sound & (length >= 10) & (length < 20), sound & (length >= 20)]
    judged = [kind & (length - tracks_of(data) >= 3) for kind in kinds]
    assert found["sound"] == [int(kind.sum()) for kind in judged]
    assert sum(found["sound"]) > 10
    for row, kind in zip(found["flagged"], judged, strict=True):
        assert row == [int((low[kind] >= bound).sum()) for bound in (0.5, 0.75, 1.5)]


def tracks_of(data):
    return np.rint(np.asarray(data.geometry)[:, 8]).astype(int)


def test_who_is_not_judged_does_not_count(data):
    found = false_alarms(data, said(np.full(len(data), 2.0), np.full(len(data), 1.5)), LENIENT)
    assert found["sound"] == [0, 0, 0]
    assert found["flagged"] == [[0, 0, 0]] * 3
