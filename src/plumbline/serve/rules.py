"""State what is shown of a building, a row of the predictions: each rule once, for map,
report, list and sheet."""

from __future__ import annotations

from typing import Any

from plumbline.export.interface import SURE_DAMAGE
from plumbline.prepare.abstention import OK
from plumbline.serve.columns import ANSWERED_REASONS, LINE_OF_SIGHT


def is_answered(building: Any) -> bool:
    """Return whether a building has a severity: it is judged, or unsure where alone."""
    return building.reason in ANSWERED_REASONS


def shows_quadrant(building: Any) -> bool:
    """Return whether a quadrant is named: damage is as probable as not, or more, and its
    place is known."""
    return building.reason == OK and bool(building.p_damaged >= SURE_DAMAGE)


def is_line_of_sight(building: Any) -> bool:
    """Return whether the settlement is a movement along one line of sight, and not vertical."""
    return bool(building.settlement_direction == LINE_OF_SIGHT)


def began_with_record(building: Any) -> bool:
    """Return whether the movement began on the record's first day, so that it may have
    begun before.

    Only there the interval of the beginning does not reach before the most probable day.
    """
    return isinstance(building.begins, str) and building.begins == building.begins_early
