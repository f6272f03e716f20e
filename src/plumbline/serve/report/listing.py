"""Write the rows of the list: in the report, and as a sheet for spreadsheets with the same
figures."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from plumbline.prepare.abstention import UNSURE_WHERE
from plumbline.serve.columns import format_permille, format_share
from plumbline.serve.judgement import CityPredictions
from plumbline.serve.report.limits import NINETY_PERCENT
from plumbline.serve.report.words import PLACE_NOT_SURE, plain, severity_text, signed
from plumbline.serve.rules import (
    began_with_record,
    is_answered,
    is_line_of_sight,
    shows_quadrant,
)

MAX_NAME_LETTERS, MAX_EXPLANATION_LETTERS = 60, 400
"""Most letters of a name in the list, and of why a building is not judged."""
SIGHT_MARK = "*"
SIGHT_NOTE = f"{SIGHT_MARK} along the line of sight of one track, not vertical."
NO_NEIGHBOURS = (
    "No figure against neighbours: the points do not show the building's settlement, or fewer "
    "than 3 buildings around "
    "it can be compared."
)
SHEET_HEAD = (
    "Number",
    "Building",
    "Probability of damage, %",
    "Severity, permille",
    "Severity from",
    "Severity to",
    "Category",
    "Quadrants",
    "Since",
    "Settlement, mm",
    "Settlement ±, mm",
    "Direction of settlement",
    "Against neighbours, mm",
    "Against neighbours ±, mm",
    "Not judged",
    "Remark",
)
"""Columns of the sheet. The number is that in the report. Intervals and ± are 90 % ones, as
there."""


class ListedBuilding(NamedTuple):
    """A building of the list, with values that are not in the table of predictions."""

    building: Any
    """Row of the predictions."""
    explanation: str
    """End of the sentence `Not judged: ...`."""

    @property
    def since(self) -> str:
        """Month in which the movement began; empty if it is not known."""
        begins = self.building.begins
        if not isinstance(begins, str):
            return ""
        return f"{begins[:7]} or before" if began_with_record(self.building) else begins[:7]

    @property
    def quadrants(self) -> str:
        """Quadrants that hold 80 % of the probability; empty where damage is not probable."""
        if is_answered(self.building) and self.building.reason == UNSURE_WHERE:
            return "not sure"
        return self.building.quadrants.replace("|", ", ") if shows_quadrant(self.building) else ""


def list_cells(listed: ListedBuilding) -> list[str]:
    """Return the cells of a building in the list, behind its number."""
    building, difference = listed.building, signed(listed.building.against_neighbours_mm)
    if difference and is_line_of_sight(building):
        difference += SIGHT_MARK
    name, p_damaged = plain(building.building_id, MAX_NAME_LETTERS), building.p_damaged
    if not is_answered(building):
        return [
            name,
            "" if math.isnan(p_damaged) else format_share(p_damaged),
            "not judged",
            "",
            "",
            "",
            difference,
        ]
    return [
        name,
        format_share(p_damaged),
        severity_text(building),
        f"{building.burland_category:d}",
        listed.quadrants,
        listed.since,
        difference,
    ]


def list_notes(rows: list[list[str]]) -> list[str]:
    """Return what the marks and empty cells in the rows of the list mean; only of those that
    occur."""
    notes = [SIGHT_NOTE] if any(row[-1].endswith(SIGHT_MARK) for row in rows) else []
    return [*notes, NO_NEIGHBOURS] if any(not row[-1] for row in rows) else notes


def sheet_rows(
    judged: CityPredictions, order: Iterable[int], numbers: Mapping[int, int]
) -> list[list[str]]:
    """Return the sheet of all buildings as rows of cells, the first with the names of the columns.

    Args:
        judged: all buildings. order: their rows, as they are listed. numbers: row -> number
            in the report.
    """
    buildings = list(judged.table.itertuples())
    sheet = [list(SHEET_HEAD)]
    for row in order:
        listed = ListedBuilding(
            buildings[row], plain(judged.explanation[row], MAX_EXPLANATION_LETTERS)
        )
        sheet.append([str(numbers.get(row, "")), *sheet_cells(listed)])
    return sheet


def sheet_cells(listed: ListedBuilding) -> list[str]:
    """Return the cells of a building in the sheet, behind its number; figures are rounded
    as in the report."""
    building = listed.building
    is_judged, has_settlement = is_answered(building), not math.isnan(building.settlement_mm)
    severity = building.severity_permille, building.severity_low, building.severity_high
    return [
        str(building.building_id),
        # As in the list, never 0 or 100.
        _format_figure(min(max(100 * building.p_damaged, 0.1), 99.9), 1),
        *("" if math.isnan(strain) else format_permille(strain) for strain in severity),
        f"{building.burland_category:d}" if is_judged else "",
        listed.quadrants,
        listed.since,
        _format_figure(building.settlement_mm, 1),
        _format_figure(NINETY_PERCENT * building.settlement_std_mm, 1),
        building.settlement_direction if has_settlement else "",
        _format_figure(building.against_neighbours_mm, 1),
        _format_figure(NINETY_PERCENT * building.against_neighbours_std_mm, 1),
        "" if is_judged else building.reason.replace("_", " "),
        _write_remark(listed),
    ]


def _format_figure(value: float, decimals: int) -> str:
    # 0 without a sign.
    return "" if math.isnan(value) else f"{round(value, decimals) + 0:.{decimals}f}"


def _write_remark(listed: ListedBuilding) -> str:
    if not is_answered(listed.building):
        return f"Not judged: {listed.explanation}."
    return PLACE_NOT_SURE if listed.building.reason == UNSURE_WHERE else ""
