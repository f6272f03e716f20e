"""Ranges of the drawing of a cross section."""

from hypothesis import given
from hypothesis import strategies as st

from plumbline.reporting.charts import TICKS
from plumbline.reporting.cross_section import round_range, section_chart

VALUES = st.floats(-1e5, 1e5)


@given(VALUES, VALUES)
def test_a_range_holds_both_values(one, other):
    least, most = sorted((one, other))
    low, high = round_range(least, most)
    assert low - 1e-9 * abs(low) - 1e-9 <= least
    assert most <= high + 1e-9 * abs(high) + 1e-9
    assert high > low


def test_ticks_are_round():
    assert round_range(0, 3748) == (0, 4000)
    assert round_range(-42, 27) == (-45, 30)
    assert (30 + 45) / TICKS == 15


def test_a_section_without_anything_but_the_line_is_drawn():
    assert section_chart("Cross section", 10, []).count("<line") == 2 * (TICKS + 1)
