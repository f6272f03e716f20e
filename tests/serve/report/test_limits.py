"""Published limits: what is above them, and for which buildings they are."""

import math
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plumbline.core.strain import principal_tensile_strain
from plumbline.serve.report.limits import (
    SOURCES,
    VERDICTS,
    Interval,
    applies,
    distortion,
    kinds_of,
    limit_rows,
    verdict,
)

STRAIN = st.floats(0, 20)


@given(st.tuples(STRAIN, STRAIN, STRAIN).map(sorted), STRAIN)
def test_a_verdict_counts_what_of_the_interval_is_above(bounds, limit):
    low, value, high = bounds
    said = verdict(Interval(value, low, high), limit)
    assert (said == "exceeded") == (low >= limit)
    assert (said == "below") == (high < limit)
    assert (said in VERDICTS[2:]) == (value >= limit)


@pytest.mark.parametrize(("severity", "shown"), [(0.4996, "0.49"), (0.5, "0.50"), (1.6699, "1.66")])
def test_a_strain_below_a_limit_is_not_shown_as_the_limit(severity, shown):
    figures = dict.fromkeys(("severity_permille", "severity_low", "severity_high"), severity)
    building = SimpleNamespace(reason="ok", **figures, tilt_mm_m=math.nan, tilt_std_mm_m=math.nan)
    _, son_and_cording, *_ = limit_rows(building, {})
    assert son_and_cording["found"] == f"{shown} ({shown} to {shown})"


def test_what_is_not_known_has_no_verdict():
    assert verdict(Interval(math.nan, math.nan, math.nan), 1.0) == "not known"


@given(STRAIN)
def test_distortion_is_that_of_the_strain_without_horizontal_strain(strain):
    (beta, *_) = distortion(Interval(strain, strain, strain))
    assert principal_tensile_strain(beta, 0.0) == pytest.approx(strain)


@pytest.mark.parametrize(
    ("source", "quantity", "one_in"),
    [
        ("Skempton and MacDonald 1956", "distortion", (300, 150)),
        ("Bjerrum 1963", "distortion", (500,)),
        ("Bjerrum 1963", "tilt", (250,)),
    ],
)
def test_limits_are_in_permille(source, quantity, one_in):
    (own,) = (row for row in SOURCES if (row.source, row.quantity) == (source, quantity))
    assert own.values == pytest.approx([1000 / number for number in one_in])
    assert all(f"1/{number}" in means for number, means in zip(one_in, own.means, strict=True))


KINDS = [
    ({"building:material": "Brick"}, {"masonry": True}),
    ({"structure": "reinforced_concrete"}, {"masonry": False}),
    ({"material": "brick and steel"}, {}),
    ({"name": "Brick Lane 3"}, {}),
    ({"building:levels": "12"}, {"tall": True}),
    ({"height_m": "8.5"}, {"tall": False}),
    ({"height": "30 m"}, {"tall": True}),
    ({"height": "high"}, {}),
]


@pytest.mark.parametrize(("attributes", "kinds"), KINDS, ids=str)
def test_attributes_tell_the_kind_of_a_building(attributes, kinds):
    found = kinds_of(attributes)
    assert {name: holds for name, (holds, _) in found.items()} == kinds
    for limits in SOURCES:
        assert applies(limits, found) == kinds.get(limits.made_for, True)
