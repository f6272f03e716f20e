"""Which drops are computed for which rules."""

import numpy as np
import pytest

from plumbline.params import Gate
from plumbline.validate.evidence import GateEvidence
from plumbline.validate.gates.bootstrap import RESAMPLES, MetricPair
from plumbline.validate.gates.rules import drops_of
from plumbline.validate.measure import slices
from plumbline.validate.metrics import JudgedAnswers
from tests.validate.test_slices import buildings

TEST = buildings(
    length=[9] * 6 + [30] * 12,
    severity=[2.0] * 18,
    city=["c"] * 6 + ["x"] * 12,
    difficulty=[0] * 18,
    area_m2=[200] * 18,
    mechanism=[0] * 18,
    accepted=[1] * 18,
)
PARTS = slices(TEST, max_strain_error_permille=0.1)
PAIR = MetricPair("severity_mae", "int8", "float32")


def said(error):
    unknown = np.full(18, np.nan)
    return JudgedAnswers(np.full((18, 4), 0.25), np.asarray(TEST.severity) + error, unknown, unknown)


EVERYONE = {"int8": said(np.where(np.arange(18) < 6, 0.5, 0.1)), "float32": said(0.1)}


def drops(**changed):
    content = {"metric": "severity_mae", "artifact": "int8", "max_drop_vs": "float32", **changed}
    evidence = GateEvidence(EVERYONE, np.asarray(TEST.quadrant), np.asarray(TEST.severity), PARTS)
    return drops_of([Gate.model_validate(content)], evidence)


def test_a_rule_has_drops_on_its_slice_alone():
    found = drops(slice="city:c")
    assert set(found) == {"city:c"}
    assert found["city:c"][PAIR] == pytest.approx(np.full(RESAMPLES, 0.4), abs=1e-6)
    assert drops(slice="city:x")["city:x"][PAIR] == pytest.approx(np.zeros(RESAMPLES), abs=1e-6)
    assert drops()["all"][PAIR].mean() == pytest.approx(0.4 / 3, abs=0.01)


def test_worst_looks_at_every_slice_that_has_buildings():
    assert set(drops(slice="worst")) == {part for part, inside in PARTS.items() if inside.any()}


def test_a_rule_on_every_city_has_drops_on_each_of_them_alone():
    assert set(drops(slice="city:*")) == {part for part in PARTS if part.startswith("city:")}


@pytest.mark.parametrize(
    "changed", [{"metric": "size_bytes"}, {"max_drop_vs": None, "max": 1.0}, {"slice": "city:gone"}], ids=str
)
def test_rules_without_buildings_have_none(changed):
    assert drops(**changed) == {}
