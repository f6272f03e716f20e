"""What map, list and sheet have to agree on of one building, whatever wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from plumbline.export.interface import SURE_DAMAGE
from plumbline.prepare.abstention import OK, UNSURE_WHERE
from plumbline.serve.columns import ANSWERED_REASONS, DECIMALS, STRAINS, VERTICAL, format_permille, format_share
from plumbline.serve.report.listing import SHEET_HEAD, SIGHT_MARK
from plumbline.serve.report.words import PLACE_NOT_SURE

LIST_HEAD = ("Building", "Damaged", "Severity", "Category", "Quadrants", "Since", "Against neighbours")
"""Columns of the list, behind the number."""


def assert_one_answer(
    building: Any, on_map: Mapping[str, Any], in_list: Sequence[str], in_sheet: Sequence[str]
) -> None:
    """Compare what is shown of a building with its row of the predictions, and by the rules of what is shown.

    Args:
        building: row of the predictions. on_map: its properties in the map document.
        in_list: its cells in the list, behind the number. in_sheet: the same of the sheet.
    """
    listed, sheet = (dict(zip(*pair, strict=True)) for pair in ((LIST_HEAD, in_list), (SHEET_HEAD[1:], in_sheet)))
    is_answered = building.reason in ANSWERED_REASONS
    assert listed["Building"] == sheet["Building"] == on_map["building_id"] == building.building_id
    assert listed["Quadrants"] == sheet["Quadrants"]
    assert listed["Since"] == sheet["Since"]
    # On the map, figures have the decimals that their declarations name.
    for name, decimals in DECIMALS.items():
        if name in on_map:
            share = 1.0 if name in STRAINS else 0.5  # a strain is rounded within its category
            assert on_map[name] == pytest.approx(building[name], abs=share * 10.0**-decimals + 1e-9), name
    # The probability has one form, and none is 0 or 100 %.
    if "p_damaged" in on_map:
        assert listed["Damaged"] == format_share(building.p_damaged)
        share = float(sheet["Probability of damage, %"])
        assert 0 < share < 100
        assert share == pytest.approx(100 * building.p_damaged, abs=0.11)
    else:
        assert listed["Damaged"] == sheet["Probability of damage, %"] == ""
    # A severity is everywhere, with one interval, or nowhere.
    low, value, high = (format_permille(building[f"severity_{end}"]) for end in ("low", "permille", "high"))
    assert listed["Severity"] == (f"{value} ({low} to {high})" if is_answered else "not judged")
    parts = [sheet[name] for name in ("Severity from", "Severity, permille", "Severity to")]
    assert parts == ([low, value, high] if is_answered else [""] * 3)
    assert ("severity_permille" in on_map) == is_answered
    # Settlements have their direction, and ± is that of the 90 % interval.
    has_settlement = "settlement_mm" in on_map
    assert sheet["Direction of settlement"] == (building.settlement_direction if has_settlement else "")
    if has_settlement:
        assert on_map["settlement_direction"] == building.settlement_direction
        assert float(sheet["Settlement, mm"]) == round(building.settlement_mm, 1)
        assert sheet["Settlement ±, mm"] == f"{1.645 * building.settlement_std_mm:.1f}"
    if "against_neighbours_mm" in on_map:
        is_slant = building.settlement_direction != VERTICAL
        assert listed["Against neighbours"].endswith(SIGHT_MARK) == is_slant
        against = listed["Against neighbours"].rstrip(SIGHT_MARK).replace("−", "-")
        assert float(against) == float(sheet["Against neighbours, mm"])
    if not is_answered:
        assert listed["Category"] == listed["Quadrants"] == listed["Since"] == ""
        assert sheet["Remark"].startswith("Not judged: ")
        return
    # The category goes with the probability.
    is_probable = building.p_damaged >= SURE_DAMAGE
    assert listed["Category"] == sheet["Category"] == str(building.burland_category)
    assert is_probable == (building.burland_category > 0)
    # One rule for quadrants, and one for dates.
    is_placed = is_probable and building.reason == OK
    shown = building.quadrants.replace("|", ", ") if is_placed else ""
    assert listed["Quadrants"] == ("not sure" if building.reason == UNSURE_WHERE else shown)
    assert sheet["Remark"] == (PLACE_NOT_SURE if building.reason == UNSURE_WHERE else "")
    is_older = isinstance(building.begins, str) and building.begins == building.begins_early
    assert ("or before" in listed["Since"]) == ("at or before" in on_map.get("when", "")) == is_older
